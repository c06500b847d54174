"""Metrics of finished requests, added up from their records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from forge_proxy.core.requests.records import RequestRecord

OTHER = "other"
"""The label of names that are not known."""
_MAX_NAMES = 64
"""Names that one label can have. Prometheus stores a time series for each combination of labels."""
DURATION_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
"""Seconds. Responses of local models take from a tenth of a second to many minutes."""
_OVERHEAD_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.5, 2)
"""Seconds. The daemon itself takes about a millisecond."""
_RATIO_BUCKETS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1)
_TOKENS_HELP = (
    "Tokens as the model server reports them: prompt (cached ones included), cached, completion (reasoning included), "
    "reasoning; retry: prompt and completion of attempts that were retried"
)


class BoundedNames:
    """The first names that are seen; every later one is `other`."""

    def __init__(self, limit: int = _MAX_NAMES) -> None:
        self._limit = limit
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """Return the label of a name."""
        if name not in self._names:
            if len(self._names) >= self._limit:
                return OTHER
            self._names.add(name)
        return name


class ModelLabels:
    """The labels of models: their names, if the backend lists them."""

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        self._names = BoundedNames()

    def label(self, model: str | None) -> str:
        """Return the label of a model; `other` for a name that only a client uses."""
        return self._names.label(model) if model and self._is_known(model) else OTHER

    def managed_label(self, model: str) -> str:
        """Return the label of a model whose server the daemon manages: it is known before the server lists it."""
        return self._names.label(model)


class RequestMetrics:
    """The metrics of requests in a registry."""

    def __init__(self, registry: CollectorRegistry, models: ModelLabels) -> None:
        self._models = models
        self._surfaces = BoundedNames()
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        of_request, of_model = ("surface", "model"), ("model",)
        self._requests = counter("forge_requests", "Requests, by how they ended", (*of_request, "result"))
        self._durations = histogram(
            "forge_request_duration_seconds",
            "Seconds from the arrival of a request to its end",
            of_request,
            buckets=DURATION_BUCKETS,
        )
        self._first_outputs = histogram(
            "forge_time_to_first_token_seconds",
            "Seconds from the arrival of a request to the first piece of its response",
            of_request,
            buckets=DURATION_BUCKETS,
        )
        self._overheads = histogram(
            "forge_overhead_seconds",
            "Seconds that the daemon itself took for a request: neither in the queue nor at the model server",
            ("surface",),
            buckets=_OVERHEAD_BUCKETS,
        )
        self._tokens = counter("forge_tokens", _TOKENS_HELP, ("model", "type"))
        self._tool_calls = counter(
            "forge_tool_calls", "Tool calls that were delivered, by the outcome of their response", ("model", "outcome")
        )
        self._retries = counter("forge_retries", "Attempts that were retried, by their fault", ("model", "fault"))
        self._cache_ratios = histogram(
            "forge_prompt_cache_ratio", "Cached share of a request's prompt tokens", of_model, buckets=_RATIO_BUCKETS
        )
        self._disconnects = counter(
            "forge_client_disconnects",
            "Requests whose client disconnected before the response was complete",
            ("surface",),
        )

    def add(self, record: RequestRecord) -> None:
        """Add a finished request."""
        surface, model = self._surface(record), self._models.label(record.served or record.model)
        self._requests.labels(surface, model, record.result).inc()
        self._durations.labels(surface, model).observe(record.seconds)
        if record.first_output is not None:
            self._first_outputs.labels(surface, model).observe(record.first_output)
        if record.result == "abandoned":
            self._disconnects.labels(surface).inc()
        else:
            self._overheads.labels(surface).observe(record.overhead)
        self._add_tokens(model, record)
        for call in record.calls:
            self._tool_calls.labels(model, call.outcome.value).inc()
        for fault in record.faults:
            self._retries.labels(model, fault).inc()

    def _add_tokens(self, model: str, record: RequestRecord) -> None:
        tokens = record.tokens
        counts = {
            "prompt": tokens.prompt,
            "cached": tokens.cached,
            "completion": tokens.completion,
            "reasoning": tokens.reasoning,
            "retry": record.retry_tokens,
        }
        for kind, count in counts.items():
            if count:
                self._tokens.labels(model, kind).inc(count)
        if tokens.prompt and tokens.cached is not None:
            self._cache_ratios.labels(model).observe(min(1.0, tokens.cached / tokens.prompt))

    def _surface(self, record: RequestRecord) -> str:
        """Return the surface; of a relayed path only two segments, since a client can make up the rest."""
        return self._surfaces.label("/".join(record.origin.surface.split("/")[:3]) or OTHER)
