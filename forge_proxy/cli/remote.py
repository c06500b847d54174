"""The daemon that runs, asked over HTTP by the commands that look at it or change it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from forge_proxy.core.errors import ForgeError

DEFAULT_URL = "http://127.0.0.1:8081"
_CONNECT_SECONDS = 10.0
_SECONDS = 600.0
"""Switching a budget may load a model anew, which takes minutes."""
_SILENCE = 120.0
"""Seconds: longer than a stream of events is ever silent (`server.keepalive_seconds`)."""
_PATIENCE = 60.0
"""Seconds for which a daemon may be away whose events are read."""
_AGAIN_AFTER = 1.0


class NoDaemon(ForgeError):
    """No daemon answers, or what answers is none."""


class RefusedByDaemon(ForgeError):
    """The daemon's own words for what it does not do."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event that the daemon sent."""

    id: int
    type: str
    data: dict[str, Any]


class Remote:
    """One daemon at a URL, with or without `/v1`. `key` is an admin key, or a caller's for what callers may ask."""

    def __init__(self, url: str, key: str | None) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """Ask the admin API. Raises `NoDaemon` or `RefusedByDaemon`."""
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
            raise NoDaemon(f"what answers at {self.root} is no forge-proxy with an admin API") from exc
        if answer.is_success and isinstance(said, dict):
            return said  # pyright: ignore[reportUnknownVariableType]
        raise RefusedByDaemon(_words(said, answer.status_code))

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
                        raise RefusedByDaemon(_words(_json_of(answer.text), answer.status_code))
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

    def _no_daemon(self, exc: Exception) -> NoDaemon:
        return NoDaemon(
            f"no daemon answers at {self.root} ({str(exc) or type(exc).__name__}); start one with 'forge-proxy "
            "serve', or say where it is with --url or FORGE_PROXY_URL"
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


def _words(said: Any, status: int) -> str:
    error = said.get("error") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(error, dict) and "message" in error:
        message = str(error["message"])  # pyright: ignore[reportUnknownArgumentType]
        if status == 401:
            message += "; give it with --key or FORGE_PROXY_KEY"
        return message
    return f"the daemon answered {status}"
