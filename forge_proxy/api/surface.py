"""A surface: one of the APIs that clients speak. Each has a codec in `wire/clients` and declares itself in one module
of this package; everything else in `api` is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forge_proxy.api.error_responses import Envelope
from forge_proxy.api.streaming import StreamEncoder
from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.wire.clients.collector import ResponseCollector


@dataclass(frozen=True, slots=True)
class Surface:
    """An API's paths, its codec and its description.

    The two encoders take the request, its id, and the time in seconds since 1970.
    """

    routes: tuple[str, ...]
    """Paths whose `POST` requests the engine answers."""
    prefixes: tuple[str, ...]
    """Paths, with all below them, whose errors have this API's format, even if no route is reached."""
    decode_request: Callable[[JsonObject], ChatRequest]
    """Raises `InvalidRequest`. An API whose format is not the backends' sets `is_converted`."""
    stream_encoder: Callable[[ChatRequest, str, int], StreamEncoder]
    encode_response: Callable[[ResponseCollector, ChatRequest, str, int], bytes]
    """Encodes a response that is not streamed, as JSON."""
    encode_error: Envelope
    openapi_paths: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The routes, as an OpenAPI document describes them."""
    openapi_schemas: Mapping[str, Any] = field(default_factory=dict[str, Any])
