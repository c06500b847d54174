"""Ollama's API over HTTP: one exchange at a time, its errors as our own types. `ollama.py` is the adapter over it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import orjson

from forge_proxy.backends.exchange import (
    OK,
    authorization,
    kept_headers,
    parsed,
    unexpected_status,
    unreadable,
    without_credentials,
)
from forge_proxy.backends.http import HttpClient, HttpResponse, RequestBody, read_capped
from forge_proxy.core.errors import BackendFault
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.backends.ollama.errors import decode_ollama_error, find_status
from forge_proxy.wire.backends.responses import UnreadableResponse
from forge_proxy.wire.sse import MAX_RESPONSE, TooLarge

_SHORT = 5.0
"""Seconds for a question that needs no model."""


class OllamaApi:
    """The API at `url`, which may end in `/v1` or `/api`, as people paste it. What it raises is a `BackendFault`."""

    def __init__(
        self, url: str, http: HttpClient, api_key: str | None = None, *, max_response: int = MAX_RESPONSE
    ) -> None:
        parts = urlsplit(without_credentials(url))
        path = parts.path.removesuffix("/v1").removesuffix("/api")
        self.url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        """Without a user name and password, which are sent in a header."""
        self.max_response = max_response
        """Bytes that may be held of one response."""
        self._http = http
        self._headers = {"Content-Type": "application/json", **authorization(url, api_key)}

    async def get(self, what: str) -> Json:
        """What it says of one thing."""
        return await self._exchange("GET", what, None, _SHORT)

    async def post(self, what: str, said: JsonObject, *, seconds: float | None = _SHORT) -> Json:
        """Its answer, all of it. None for `seconds` waits as long as a model may take."""
        return await self._exchange("POST", what, orjson.dumps(said), seconds)

    @asynccontextmanager
    async def chat(self, body: RequestBody) -> AsyncGenerator[HttpResponse]:
        """A chat's answer, its status still to be looked at."""
        async with self._http.open("POST", f"{self.url}/api/chat", body=body, headers=self._headers) as response:
            yield response

    async def error(self, response: HttpResponse) -> BackendFault:
        """What any other status than 200 means."""
        if unexpected := unexpected_status(self.url, response.status, response.headers):
            return unexpected
        return decode_ollama_error(
            self.url, response.status, parsed(await read_capped(response)), kept_headers(response)
        )

    def fault(self, fault: UnreadableResponse | TooLarge) -> BackendFault:
        """What it means that a line cannot be read: the server's own error, or a fault of its answer."""
        if isinstance(fault, UnreadableResponse) and fault.error is not None:
            return decode_ollama_error(self.url, find_status(fault.error), fault.error).inside_response()
        return unreadable(self.url, fault, self.max_response)

    async def _exchange(self, method: str, what: str, body: bytes | None, seconds: float | None) -> Json:
        url = f"{self.url}/api/{what}"
        async with self._http.open(method, url, body=body, headers=self._headers, seconds=seconds) as response:
            if response.status != OK:
                raise await self.error(response)
            return parsed(await response.read())
