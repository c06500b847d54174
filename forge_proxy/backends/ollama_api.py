"""HTTP client for Ollama's API. Converts its errors to core errors. `ollama.py` is the adapter."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import orjson

from forge_proxy.backends.exchange import (
    OK,
    authorization_header,
    check_status,
    parse_body,
    select_headers,
    strip_credentials,
    to_fault,
    trace_headers,
)
from forge_proxy.backends.http import HttpClient, HttpResponse, RequestBody, read_capped
from forge_proxy.backends.raw_relay import RelayTarget, relay_call
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.backends.ollama.errors import decode_ollama_error, find_status
from forge_proxy.wire.backends.responses import UnreadableResponse
from forge_proxy.wire.relay import RawCall
from forge_proxy.wire.sse import MAX_RESPONSE, TooLarge

_SHORT = 5.0
"""Timeout in seconds for requests that run no model."""


class OllamaApi:
    """The API at `url`, which may end in `/v1` or `/api`. Methods raise `BackendFault`."""

    def __init__(
        self, url: str, http: HttpClient, api_key: str | None = None, *, max_response: int = MAX_RESPONSE
    ) -> None:
        parts = urlsplit(strip_credentials(url))
        path = parts.path.removesuffix("/v1").removesuffix("/api")
        self.url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        """The URL without user name and password, which are sent in a header."""
        self.max_response = max_response
        """Maximum bytes of one response that may be buffered."""
        self._http = http
        self._headers = {"Content-Type": "application/json", **authorization_header(url, api_key)}

    async def get(self, route: str) -> Json:
        """Send a GET request to a route below `/api`."""
        return await self._exchange("GET", route, None, _SHORT)

    async def post(self, route: str, body: JsonObject, *, seconds: float | None = _SHORT) -> Json:
        """Send a POST request to a route below `/api`. With None for `seconds` there is no time limit."""
        return await self._exchange("POST", route, orjson.dumps(body), seconds)

    @asynccontextmanager
    async def chat(self, call: ModelCall, body: RequestBody) -> AsyncGenerator[HttpResponse]:
        """Send the call, encoded as `body`, and yield the response, whose status the caller checks."""
        headers = trace_headers(self._headers, call)
        async with self._http.open("POST", f"{self.url}/api/chat", body=body, headers=headers) as response:
            yield response

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """Relay a request to a route of Ollama's own API, or of its OpenAI-compatible one."""
        target = RelayTarget(self._http, self.url, "ollama", self._headers, decode_ollama_error)
        return relay_call(target, f"{self.url}{call.route}", call)

    async def error(self, response: HttpResponse) -> BackendFault:
        """Return the error for a status other than 200."""
        if unexpected := check_status(self.url, response.status, response.headers):
            return unexpected
        return decode_ollama_error(
            self.url, response.status, parse_body(await read_capped(response)), select_headers(response)
        )

    def fault(self, fault: UnreadableResponse | TooLarge) -> BackendFault:
        """Return the error for an unreadable line: the server's own error, or a malformed response."""
        if isinstance(fault, UnreadableResponse) and fault.error is not None:
            return decode_ollama_error(self.url, find_status(fault.error), fault.error).mark_inside_response()
        return to_fault(self.url, fault, self.max_response)

    async def _exchange(self, method: str, route: str, body: bytes | None, seconds: float | None) -> Json:
        url = f"{self.url}/api/{route}"
        async with self._http.open(method, url, body=body, headers=self._headers, seconds=seconds) as response:
            if response.status != OK:
                raise await self.error(response)
            return parse_body(await response.read())
