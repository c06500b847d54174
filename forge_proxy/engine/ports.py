"""Protocols that the engine's environment implements. Adapters match by structure and import nothing from here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.hardware import HardwareProfile
from forge_proxy.core.health import Health
from forge_proxy.core.requests.content import AttemptContent, RequestContent
from forge_proxy.core.requests.records import RequestRecord
from forge_proxy.core.rescue.templates import LearnedTemplate
from forge_proxy.core.stream import Chunk, Reply
from forge_proxy.core.tracing import TraceContext
from forge_proxy.engine.events import Event
from forge_proxy.wire.relay import RawCall


class Backend(Protocol):
    """A model server."""

    @property
    def url(self) -> str:
        """The base URL, for messages and logs; never contains credentials."""
        ...

    def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """Yield the response chunk by chunk; a non-streaming response is one chunk. Closing it stops the generation.

        Raises `BackendUnreachable`, `BackendTimeout`, `BackendBroke` or `BackendError`. Before the first chunk the
        error may be `RequestFormatRejected`, if another format may be accepted, or `LimitTooLarge`, if a smaller
        limit may be.
        """
        ...

    async def models(self) -> Sequence[ModelCard]:
        """List the models that the server serves. Raises like `stream`."""
        ...

    async def slots(self) -> int | None:
        """Return the number of requests that the server processes concurrently; None if it does not report it.

        Raises like `stream`.
        """
        ...

    async def context_window(self, model: str | None = None) -> int | None:
        """Return the context window per request in tokens, prompt and completion together, as currently served.

        None if the server does not report it. `model` None means the only model. Raises like `stream`.
        """
        ...

    async def count_tokens(self, call: ModelCall) -> int | None:
        """Return the number of prompt tokens of this call; None if the server does not count. Raises like `stream`."""
        ...

    async def health(self) -> Health:
        """Report whether the server accepts requests now. Raises nothing."""
        ...


class RawResponse(Protocol):
    """The response of a model server to a relayed request, whose status and headers have arrived."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """All headers of the server; their lookup is case-insensitive. Not all may be forwarded."""
        ...

    def pieces(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives, decompressed. Raises `BackendBroke` or `BackendTimeout`."""
        ...


@runtime_checkable
class RawRelay(Protocol):
    """A backend that relays requests to routes which the daemon does not interpret."""

    @property
    def kind(self) -> str:
        """The kind of server, such as `ollama`."""
        ...

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """Send the request and yield the response, also one with the status of an error. Leaving the block cancels it.

        Raises `RouteNotSupported` if the server has no such route, and like `Backend.stream`.
        """
        ...


class Resizer(Protocol):
    """Changes the context window of a model server: `-c` of a managed server, `num_ctx` of Ollama."""

    def served(self) -> Sequence[str | None]:
        """Return the models whose window can be set now: with a catalog the loaded ones, else None for all models."""
        ...

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """Set the window of this model to `tokens` per request; None leaves it to the server.

        Does nothing if the model is no longer served. Running requests finish first and new requests wait. On
        failure the server is unchanged.
        Raises `BackendFault`.
        """
        ...


class HardwareSource(Protocol):
    """The hardware of the machine."""

    async def profile(self) -> HardwareProfile:
        """Return the hardware profile; the first call waits for detection, with a time limit. Raises nothing."""
        ...


class Clock(Protocol):
    """A source of time, injected so that tests need not wait."""

    def now(self) -> float:
        """Return the seconds since an arbitrary fixed moment."""
        ...


class ThoroughReader(Protocol):
    """Parses replies that are long or badly malformed without blocking the event loop."""

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        """Parse a reply thoroughly, or `lightly`; None if that does not finish in time. Raises nothing."""
        ...


class TemplateLearner(Protocol):
    """Learns how a model writes calls from the chat template on its server."""

    async def learn(self, model: str | None, known: LearnedTemplate | None) -> LearnedTemplate:
        """Learn the template of a model; return `known` if it is of the same template. Raises nothing."""
        ...


class CardStore(Protocol):
    """Stores the capability cards of the models of one server."""

    def load(self) -> Sequence[CapabilityCard]:
        """Return the stored cards. Raises nothing."""
        ...

    def keep(self, card: CapabilityCard) -> None:
        """Store a card, replacing the model's earlier one, if the store is writable. Raises nothing."""
        ...


class Observer(Protocol):
    """Receives events. Must not raise and must not block."""

    def __call__(self, event: Event, /) -> None: ...


class RequestTracer(Protocol):
    """Finds the positions of requests, and of the model calls of runs, in their traces. Raises nothing."""

    def begin(self, traceparent: str, /) -> TraceContext:
        """Begin the trace of a request, or continue that of its client, given its `traceparent`."""
        ...

    def begin_model_call(self, run_id: str, /) -> TraceContext:
        """Continue the trace of a run with a call of the model."""
        ...

    def end_model_call(self, run_id: str, record: RequestRecord, /) -> None:
        """Record that this call has ended. Requests are recorded by their events."""
        ...


class ContentObserver(Protocol):
    """Receives what no event contains: the text of each attempt when it ends, then that of the whole request.

    Only set if a user asked for it. Must not raise and must not block.
    """

    def __call__(self, content: AttemptContent | RequestContent, /) -> None: ...
