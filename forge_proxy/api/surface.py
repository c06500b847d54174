"""A surface: one of the APIs that clients speak. Each has a codec in `wire/clients` and declares itself in one module
of this package; everything else in `api` is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from forge_proxy.api.bodies import LargeBodies
from forge_proxy.api.error_responses import Envelope
from forge_proxy.api.streaming import StreamEncoder, StreamErrorPolicy
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.engine.memory import RequestMemory
from forge_proxy.wire.clients.collector import ResponseCollector


class DecodedRequest(Protocol):
    """A request that a codec has decoded, and the encoder of its response: both need what the request contained.

    `created` is the time in seconds since 1970. Pure; each codec in `wire/clients` has its own.
    """

    @property
    def chat(self) -> ChatRequest:
        """The request as the engine answers it; `is_converted` if the API's format is not that of the backends."""
        ...

    def build_stream_encoder(self, request_id: str, created: int) -> StreamEncoder:
        """Return the encoder of the streamed response."""
        ...

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        """Encode a response that is not streamed, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A parsed request, and what its decoding needs to know about it."""

    body: JsonObject
    size: int
    """Bytes of the body as received."""
    owner: str
    memory: RequestMemory
    """Charged with what is read from the store until the request ends."""


class SurfaceStorage(Protocol):
    """Stores what later requests refer to. The endpoint awaits it around the pure codec."""

    async def decode(self, received: ReceivedRequest, large_bodies: LargeBodies) -> DecodedRequest:
        """Decode a request together with what it refers to. Raises `InvalidRequest` or `MemoryFull`."""
        ...

    async def save(self, decoded: DecodedRequest, encoder: StreamEncoder) -> None:
        """Store a streamed response before its last event is sent."""
        ...

    async def encode_response(
        self, decoded: DecodedRequest, response: ResponseCollector, request_id: str, created: int
    ) -> bytes:
        """Encode a response that is not streamed, and store it."""
        ...


@dataclass(frozen=True, slots=True)
class Surface:
    """An API's name, its paths, its codec and its description."""

    name: str
    """How records and metrics name it."""
    routes: tuple[str, ...]
    """Paths whose `POST` requests the engine answers."""
    prefixes: tuple[str, ...]
    """Paths, with all below them, whose errors have this API's format, even if no route is reached."""
    decode_request: Callable[[JsonObject], DecodedRequest]
    """Raises `InvalidRequest` with the path of the field."""
    encode_error: Envelope
    stream_errors: StreamErrorPolicy = field(default_factory=StreamErrorPolicy)
    openapi_paths: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The routes, as an OpenAPI document describes them."""
    openapi_schemas: Mapping[str, Any] = field(default_factory=dict[str, Any])
