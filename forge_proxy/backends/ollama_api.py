"""Ollama's API over HTTP: one exchange at a time, its errors as our own types. `ollama.py` is the adapter over it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import orjson

from forge_proxy.backends.http import HttpClient, HttpResponse, read_capped
from forge_proxy.core.errors import BackendBroke, BackendError, BackendFault, InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.answers import UnreadableAnswer
from forge_proxy.wire.ollama.errors import read_error, status_in

_KEPT_HEADERS = ("retry-after", "retry-after-ms")
_SHORT = 5.0
"""Seconds for a question that needs no model."""


class OllamaApi:
    """The API at `url`, which may end in `/v1` or `/api`, as people paste it. What it raises is a `BackendFault`."""

    def __init__(self, url: str, http: HttpClient, api_key: str | None) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/api")
        self.url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))
        """For messages and logs: without a user name and password."""
        self._base = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self._http = http
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    async def get(self, what: str) -> Json:
        """What it says of one thing."""
        return await self._exchange("GET", what, None, _SHORT)

    async def post(self, what: str, said: JsonObject, *, seconds: float | None = _SHORT) -> Json:
        """Its answer, all of it. None for `seconds` waits as long as a model may take."""
        return await self._exchange("POST", what, _written(said), seconds)

    @asynccontextmanager
    async def chat(self, said: JsonObject) -> AsyncGenerator[HttpResponse]:
        """A chat's answer, its status still to be looked at."""
        async with self._http.open(
            "POST", f"{self._base}/api/chat", body=_written(said), headers=self._headers
        ) as response:
            yield response

    async def error(self, response: HttpResponse) -> BackendError:
        """What an answer with a status of an error means."""
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        return read_error(self.url, response.status, _parsed(await read_capped(response)), headers)

    def fault(self, unreadable: UnreadableAnswer) -> BackendFault:
        """What it means that a line cannot be read: the server's own error, or that it broke off."""
        if unreadable.error is None:
            return BackendBroke(self.url, str(unreadable))
        return read_error(self.url, status_in(unreadable.error), unreadable.error).inside_response()

    async def _exchange(self, method: str, what: str, body: bytes | None, seconds: float | None) -> Json:
        url = f"{self._base}/api/{what}"
        async with self._http.open(method, url, body=body, headers=self._headers, seconds=seconds) as response:
            if response.status >= 400:
                raise await self.error(response)
            return _parsed(await response.read())


def _written(said: Mapping[str, Json]) -> bytes:
    try:
        return orjson.dumps(said)
    except TypeError as exc:  # it reads deeper nesting than it writes
        raise InvalidRequest("body", f"cannot be passed on: {exc}") from exc


def _parsed(raw: bytes) -> Json:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw.decode("utf-8", "replace")
