"""The running daemon, asked over HTTP by the commands that look at it or change it."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from forge_proxy.core.errors import ForgeError

DEFAULT_URL = "http://127.0.0.1:8081"
_SYSTEM_ERROR = re.compile(r"\[Errno -?\d+\] (.+)")
_NO_TLS = ("WRONG_VERSION_NUMBER", "record layer failure")
"""What OpenSSL says of a server that answers in plain text."""
_CONNECT_SECONDS = 10.0
_SECONDS = 600.0
"""Switching a budget may load a model anew, which takes minutes."""
_SILENCE = 120.0
"""Seconds: longer than a stream of events is ever silent (`server.keepalive_seconds`)."""
_PATIENCE = 60.0
"""Seconds for which a daemon may be away whose events are read."""
_AGAIN_AFTER = 1.0
_MAY_BE_ANOTHER = (401, 403, 404, 405, 501)
"""What servers answer to a route that they do not have, or to a key that is not theirs."""


class NoDaemon(ForgeError):
    """No daemon answers, or what answers is none."""


class DaemonError(ForgeError):
    """The daemon's own words for what it does not do."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event that the daemon sent."""

    id: int
    type: str
    data: dict[str, Any]


class AdminClient:
    """One daemon at a URL, with or without `/v1`. `key` is an admin key, or a caller's for what callers may ask."""

    def __init__(self, url: str, key: str | None) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """Ask the admin API. Raises `NoDaemon` or `DaemonError`."""
        return self.ask(method, f"/admin/v1/{path}", body, query)

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Ask any route. Raises like `admin`."""
        import httpx  # the help text needs no HTTP

        timeout, headers = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS), {**self._headers, **(headers or {})}
        try:
            answer = httpx.request(method, self.root + path, json=body, params=query, headers=headers, timeout=timeout)
            said: Any = answer.json()
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            raise self._no_daemon(exc) from exc
        except ValueError as exc:
            raise self._other_server() or self._no_admin_api() from exc
        if answer.is_success and isinstance(said, dict):
            return said  # pyright: ignore[reportUnknownVariableType]
        raise self._refusal(said, answer.status_code)

    def events(self, path: str, is_last: Callable[[SentEvent], bool]) -> Generator[SentEvent]:
        """The server-sent events of a route of the admin API up to the last one, through restarts of the daemon. Raises
        like `admin`.
        """
        import httpx

        event, away_since = None, math.inf
        timeout = httpx.Timeout(_SILENCE, connect=_CONNECT_SECONDS)
        while event is None or not is_last(event):
            headers = {**self._headers, "Last-Event-ID": str(event.id if event else 0)}
            failed: Exception = NoDaemon("it ended the stream")
            try:
                with httpx.stream("GET", f"{self.root}/admin/v1/{path}", headers=headers, timeout=timeout) as answer:
                    if not answer.is_success:
                        answer.read()
                        raise self._refusal(_json_of(answer.text), answer.status_code)
                    for event in read_events(answer.iter_lines()):
                        away_since = math.inf
                        yield event
            except (httpx.TransportError, httpx.InvalidURL) as exc:
                failed = exc
            if event is None or time.monotonic() > away_since + _PATIENCE:
                raise self._no_daemon(failed) from failed
            if not is_last(event):
                away_since = min(away_since, time.monotonic())
                time.sleep(_AGAIN_AFTER)

    def _refusal(self, said: Any, status: int) -> ForgeError:
        """The daemon's refusal, unless some other server does not know the route or the key."""
        other = self._other_server() if status in _MAY_BE_ANOTHER else None
        return other or DaemonError(_words(said, status))

    def _other_server(self) -> NoDaemon | None:
        """Says which server it is that answers; None for a forge-proxy."""
        from forge_proxy.backends.http import AioHttp
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
        what = {"llama-server": "a llama-server", "ollama": "an Ollama"}.get(str(kind), "some other server")
        return NoDaemon(
            f"what answers at {self.root} is {what}, not a forge-proxy; give the address of the daemon with --url or "
            "FORGE_PROXY_URL"
        )

    def _no_admin_api(self) -> NoDaemon:
        return NoDaemon(f"what answers at {self.root} is no forge-proxy with an admin API")

    def _no_daemon(self, exc: Exception) -> NoDaemon:
        return NoDaemon(
            f"no daemon answers at {self.root} ({_describe(exc)}); start one with `forge-proxy serve`, or give its "
            "address with --url or FORGE_PROXY_URL"
        )


def read_events(lines: Iterable[str]) -> Generator[SentEvent]:
    """Server-sent events of the daemon's, which have one line of data each."""
    said: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:  # a comment has none
            said[name] = value
        elif not line and "data" in said:
            yield SentEvent(int(said["id"]), said["event"], json.loads(said["data"]))
            said = {}


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _describe(exc: Exception) -> str:
    """Why a request got no answer, without the number of the system's error."""
    said = str(exc) or type(exc).__name__
    if any(sign in said for sign in _NO_TLS):
        return "the server there does not speak https"
    if "missing an 'http://'" in said:
        return "expected a URL such as http://127.0.0.1:8081"
    return said[:1].lower() + said[1:] if not (found := _SYSTEM_ERROR.fullmatch(said)) else found[1].lower()


def _words(said: Any, status: int) -> str:
    error = said.get("error") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(error, dict) and "message" in error:
        message = str(error["message"])  # pyright: ignore[reportUnknownArgumentType]
        if status == 401:
            message += "; give it with --key or FORGE_PROXY_KEY"
        return message
    return f"the daemon answered {status}"
