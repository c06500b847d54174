"""Prometheus metrics: what the events of the engine add up to, and the current state, which is read at each scrape.

Labels are bounded. A model that is not known is `other`, as is every name after the first 64; clients are not a label.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from forge_proxy.engine.events import (
    BudgetResolved,
    Event,
    FaultRateRaised,
    FaultRateSettled,
    RequestAbandoned,
    RequestAnswered,
    RequestFailed,
    ServerStateChanged,
)
from forge_proxy.telemetry.request_metrics import DURATION_BUCKETS, ModelLabels, RequestMetrics


@dataclass(frozen=True, slots=True)
class LiveState:
    """The state of the daemon that a scrape reads."""

    is_backend_up: bool
    waiting: int
    """Requests that wait for a slot."""
    running: int
    default_model: str | None
    """The model for requests without one, if known."""


class DaemonMetrics:
    """The metrics of one daemon, with a registry of its own. It is a listener of events."""

    def __init__(self, is_known_model: Callable[[str], bool], read_state: Callable[[], Awaitable[LiveState]]) -> None:
        """`is_known_model` returns whether the backend lists a model; `read_state` is awaited by each scrape."""
        self._read_state = read_state
        self._loading_since: dict[str, float] = {}
        self._default_window: int | None = None
        self._models = ModelLabels(is_known_model)
        registry = self._registry = CollectorRegistry()
        self._requests = RequestMetrics(registry, self._models)
        self._load_seconds = Histogram(
            "forge_model_load_seconds",
            "Seconds to load a model",
            ("model",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._windows = Gauge(
            "forge_context_window_tokens", "Context budget of a model in tokens", ("model",), registry=registry
        )
        self._contents = Counter(
            "forge_request_contents",
            "Texts of requests, by what became of them: stored, cut, too_large, dropped",
            ("result",),
            registry=registry,
        )
        self._alerts = Gauge(
            "forge_ledger_alerts", "Tools of a model whose fault rate is above its past", ("model",), registry=registry
        )
        self._queue_depth = Gauge("forge_queue_depth", "Requests in the queue, by state", ("state",), registry=registry)
        self._backend_up = Gauge("forge_backend_up", "1 if the model server is ready, else 0", registry=registry)

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        match event:
            case RequestAnswered(record) | RequestFailed(record) | RequestAbandoned(record):
                self._requests.add(record)
            case FaultRateRaised(alert):
                self._alerts.labels(self._models.label(alert.model)).inc()
            case FaultRateSettled(model):
                self._alerts.labels(self._models.label(model)).dec()
            case BudgetResolved(model, budget) if budget.tokens is not None:
                self._set_window(model, budget.tokens)
            case ServerStateChanged(_, state, _, model):
                self._follow_loading(model, state)
            case _:
                pass

    def count_content(self, result: str) -> None:
        """Count the outcome of storing the text of a request."""
        self._contents.labels(result).inc()

    async def render(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, in the format that the `accept` header asks for."""
        state = await self._read_state()
        self._backend_up.set(state.is_backend_up)
        self._queue_depth.labels("waiting").set(state.waiting)
        self._queue_depth.labels("running").set(state.running)
        if self._default_window is not None:
            self._windows.labels(self._models.label(state.default_model)).set(self._default_window)
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _set_window(self, model: str | None, tokens: int) -> None:
        """Set the context budget of a model; None is the default model, whose name may not be known yet."""
        if model is None:
            self._default_window = tokens
        else:
            self._windows.labels(self._models.label(model)).set(tokens)

    def _follow_loading(self, model: str, state: str) -> None:
        """Measure how long a managed server takes to load a model."""
        if state == "ready" and model in self._loading_since:
            seconds = time.monotonic() - self._loading_since.pop(model)
            self._load_seconds.labels(self._models.managed_label(model)).observe(seconds)
        elif state in ("starting", "loading"):
            self._loading_since.setdefault(model, time.monotonic())
        else:
            self._loading_since.pop(model, None)
