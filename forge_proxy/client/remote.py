"""HTTP client of the programs and commands that show or change a running daemon."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_proxy.client.error_messages import describe_transport_error, error_code, error_message, read_json
from forge_proxy.core.errors import ForgeError

DEFAULT_URL = "http://127.0.0.1:8081"
_CONNECT_SECONDS = 10.0
_SECONDS = 600.0
"""Switching a budget may reload a model, which takes minutes."""
_SILENCE_SECONDS = 120.0
"""Seconds: longer than the keepalive interval of an event stream (`server.keepalive_seconds`)."""
_MAX_AWAY_SECONDS = 60.0
"""Seconds for which an event stream waits for a daemon that is unreachable."""
_RECONNECT_SECONDS = 1.0
_LATE_SECONDS = 1.0
"""By how much a stream with a time limit may exceed it."""
_MAY_BE_ANOTHER = (401, 403, 404, 405, 501)
"""Statuses that other servers return for an unknown route or key."""


class NoDaemon(ForgeError):
    """No daemon answers, or another server does."""


class DaemonError(ForgeError):
    """The daemon rejected the request; the message is the daemon's, and so are the HTTP status and the code."""

    def __init__(self, message: str, status: int = 0, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class WaitTimeout(ForgeError, TimeoutError):
    """The awaited event did not occur in time. Nothing was changed, and it may still occur."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event of the daemon."""

    id: int
    type: str
    data: dict[str, Any]


class AdminClient:
    """Client of the daemon at a URL, with or without `/v1`. `key` is an admin key, or an API key for client routes."""

    def __init__(self, url: str, key: str | None) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """Send a request to the admin API. Raises `NoDaemon` or `DaemonError`."""
        return self.ask(method, f"/admin/v1/{path}", body, query)

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request to any route. Raises like `admin`."""
        import httpx  # local import: --help does not need HTTP

        timeout, headers = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS), {**self._headers, **(headers or {})}
        try:
            response = httpx.request(
                method, self.root + path, json=body, params=query, headers=headers, timeout=timeout
            )
            content: Any = response.json()
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            raise self._no_daemon(exc) from exc
        except ValueError as exc:
            raise self._other_server() or self._no_admin_api() from exc
        if response.is_success and isinstance(content, dict):
            return content  # pyright: ignore[reportUnknownVariableType]
        raise self._refusal(content, response.status_code)

    def upload(self, path: str, file: Path, fields: dict[str, str]) -> dict[str, Any]:
        """Upload a file with the fields of a form, in pieces. Raises `NoDaemon`, `DaemonError` or `OSError`."""
        import httpx

        with file.open("rb") as content:
            try:
                response = httpx.post(
                    self.root + path, data=fields, files={"file": (file.name, content)}, headers=self._headers,
                    timeout=httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS),
                )  # fmt: skip
            except (httpx.TransportError, httpx.InvalidURL) as exc:
                raise self._no_daemon(exc) from exc
        if response.is_success:
            return response.json()
        raise self._refusal(read_json(response.text), response.status_code)

    def download(self, path: str) -> Generator[bytes]:
        """Yield the content of a route in pieces. Raises `NoDaemon` or `DaemonError`."""
        import httpx

        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        try:
            with httpx.stream("GET", self.root + path, headers=self._headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal(read_json(response.text), response.status_code)
                yield from response.iter_bytes()
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            raise self._no_daemon(exc) from exc

    def events(
        self,
        path: str,
        is_last: Callable[[SentEvent], bool],
        query: Mapping[str, Any] | None = None,
        on_loss: Callable[[], object] = lambda: None,
        *,
        after: int = 0,
        reconnects: bool = True,
        seconds: float | None = None,
    ) -> Generator[SentEvent]:
        """Yield the server-sent events of an admin API route until the last one, reconnecting if the daemon restarts.

        `after` is the id of the event after which they begin.
        `on_loss` is called when the connection is lost; without `reconnects` the end of the stream is the end. An event
        without an id has that of the event before. Raises like `admin`, and `WaitTimeout` after `seconds`.
        """
        import httpx
        from httpx_sse import EventSource, SSEError

        event, away_since, was_connected = None, math.inf, False
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while event is None or not is_last(event):
            is_late, silence = False, min(_SILENCE_SECONDS, _time_left(deadline))
            timeout = httpx.Timeout(silence, connect=min(_CONNECT_SECONDS, silence))
            headers = {**self._headers, "Last-Event-ID": str(event.id if event else after)}
            failed: Exception = NoDaemon("the daemon closed the stream")
            try:
                with httpx.stream(
                    "GET", f"{self.root}/admin/v1/{path}", params=query, headers=headers, timeout=timeout
                ) as answer:
                    if not answer.is_success:
                        answer.read()
                        raise self._refusal(read_json(answer.text), answer.status_code)
                    was_connected = True
                    for sent in EventSource(answer).iter_sse():
                        if sent.data:  # empty for a keepalive comment
                            event, away_since = SentEvent(int(sent.id or 0), sent.event, sent.json()), math.inf
                            yield event
                        if is_late := _time_left(deadline) < silence - _LATE_SECONDS:
                            break
                if is_late:  # the timeout of a connection is fixed: the next one has a shorter one
                    continue
                if not reconnects:
                    return
            except SSEError as exc:  # no event stream
                raise self._other_server() or self._no_admin_api() from exc
            except (httpx.TransportError, httpx.InvalidURL) as exc:
                failed = exc
            _time_left(deadline)
            if not was_connected or time.monotonic() > away_since + _MAX_AWAY_SECONDS:
                raise self._no_daemon(failed) from failed
            if event is None or not is_last(event):
                if away_since == math.inf:
                    on_loss()
                away_since = min(away_since, time.monotonic())
                time.sleep(_RECONNECT_SECONDS)

    def _refusal(self, content: Any, status: int) -> ForgeError:
        """Return the error for a failed request: the daemon's, or that another server answered."""
        other = self._other_server() if status in _MAY_BE_ANOTHER else None
        return other or DaemonError(error_message(content, status), status, error_code(content))

    def _other_server(self) -> NoDaemon | None:
        """Return an error that names the server that answers, or None if it is a forge-proxy."""
        if _is_in_event_loop():  # a blocking client in an asynchronous program
            return None
        from forge_proxy.backends.aiohttp_client import AioHttp
        from forge_proxy.backends.probe import identify

        async def ask() -> str | None:
            http = AioHttp(connect_seconds=_CONNECT_SECONDS, silence_seconds=_CONNECT_SECONDS)
            try:
                return await identify(self.root, http)
            finally:
                await http.close()

        kind = asyncio.run(ask())
        if kind in (None, "forge-proxy"):
            return None
        server = {"llama-server": "a llama-server", "ollama": "an Ollama"}.get(str(kind), "another server")
        return NoDaemon(
            f"the server at {self.root} is {server}, not a forge-proxy; set the daemon's address with --url or "
            "FORGE_PROXY_URL"
        )

    def _no_admin_api(self) -> NoDaemon:
        return NoDaemon(f"the server at {self.root} is not a forge-proxy with an admin API")

    def _no_daemon(self, exc: Exception) -> NoDaemon:
        return NoDaemon(
            f"no daemon responds at {self.root} ({describe_transport_error(exc)}); start one with "
            "`forge-proxy serve`, or set its address with --url or FORGE_PROXY_URL"
        )


def _time_left(deadline: float) -> float:
    """Return the seconds until a time of `time.monotonic`. Raises `WaitTimeout` if there are none."""
    if (left := deadline - time.monotonic()) <= 0:
        raise WaitTimeout("it has not happened in time")
    return left


def _is_in_event_loop() -> bool:
    """Whether the current thread runs an event loop, in which no other can be run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
