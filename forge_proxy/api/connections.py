"""Limits on client connections: closes those that exceed a timeout, and the oldest idle ones when file descriptors
run short. `protocol.py` reports what a connection waits for; nothing here reads or parses.
"""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from forge_proxy.api.access_denied import AccessDenied, BodyTimeout, HeadTimeout
from forge_proxy.engine.memory import MemoryBudget

_LOG = logging.getLogger("forge_proxy.api")
_WANTED_DESCRIPTORS = 65_536
"""Enough for every daemon; far below the hard limit of systems where closing all descriptors takes seconds."""
_RESERVED_DESCRIPTORS = 48
"""For the log, the store, the model server's pipes, MCP servers and the event loop itself."""
_LOG_SECONDS = 10.0
IDLE_SECONDS = 120
"""How long a connection is kept for the next request. Clients that keep connections in a pool have to close them first,
or a request may be lost on a connection that the daemon closes at that moment: Go's keep theirs for 90 s, aiohttp's for
15 s.
"""
_CLOSED_AT_ONCE = 16
"""The fraction of connections that are closed at a time if there are too many: checking all of them takes time."""
_ABORTED_AT_ONCE = 16
"""Maximum number of slow readers that are aborted at a time. Each has megabytes in the operating system's send buffer,
which take up to a millisecond to free.
"""


class WaitingFor(IntEnum):
    """The event that a connection waits for. Connections with lower values are closed first."""

    REFUSED = 0
    """To be closed: an error response was sent."""
    NEXT_REQUEST = 1
    FIRST_BYTE = 2
    HEAD = 3
    BODY = 4
    READER = 5
    """For the client to read: bytes of a response are buffered, and none have been delivered since."""
    RESPONSE = 6
    """For the daemon. Never closed."""


class Connection(Protocol):
    """A client connection, as this module sees it."""

    def waiting(self, now: float) -> tuple[WaitingFor, float]:
        """Return what the connection waits for, and since when (time of the event loop)."""
        ...

    def refuse(self, error: AccessDenied) -> None:
        """Respond with an error if that is still possible, and close."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one connection, and of their number."""

    head_bytes: int
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    idle_seconds: float = IDLE_SECONDS
    connections: int = sys.maxsize


def raise_descriptor_limit() -> None:
    """Raise this process's soft limit of open files towards the hard one. Each request under way needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connection_limit() -> int:
    """Return how many client connections the open-file limit allows, each with one connection to the model server."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(8, (soft - _RESERVED_DESCRIPTORS) // 2)


class RateLimitedLog:
    """Logs the first message of each kind, then at most one in ten seconds with the number of omitted ones."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._omitted: dict[str, int] = {}

    def warn(self, kind: str, event: str, **fields: object) -> None:
        """Log a warning of that kind."""
        now = self._clock()
        if now - self._logged_at.get(kind, float("-inf")) < _LOG_SECONDS:
            self._omitted[kind] = self._omitted.get(kind, 0) + 1
            return
        self._logged_at[kind] = now
        omitted = self._omitted.pop(kind, 0)
        line = {"event": event, **fields, **({"omitted": omitted} if omitted else {})}
        _LOG.warning("%s: %s", event, fields.get("error", ""), extra={"log_fields": line})


class ConnectionSupervisor:
    """Closes connections by their limits. One for each server."""

    def __init__(
        self, limits: ConnectionLimits, log: RateLimitedLog | None = None, memory: MemoryBudget | None = None
    ) -> None:
        self.limits = limits
        self.log = log or RateLimitedLog()
        self.memory = memory
        """The budget that buffered responses are charged to."""
        self.aborted_readers = 0

    def close_overdue(self, connections: Collection[Connection], now: float) -> bool:
        """Close the connections whose client is overdue. Called about once a second.

        Returns whether slow readers remain: the caller then calls it again in a later turn of the event loop.
        """
        aborted = 0
        for connection in tuple(connections):
            waiting, since = connection.waiting(now)
            if waiting is WaitingFor.BODY and now - since > self.limits.body_seconds:
                connection.refuse(BodyTimeout(self.limits.body_seconds))
            elif waiting is WaitingFor.HEAD and now - since > self.limits.head_seconds:
                connection.refuse(HeadTimeout(self.limits.head_seconds))
            elif waiting is WaitingFor.READER and now - since > self.limits.send_seconds:
                if aborted == _ABORTED_AT_ONCE:
                    return True
                aborted += 1
                self._abort_reader(connection)
            elif waiting < WaitingFor.HEAD and now - since > self._patience(waiting):
                connection.abort()  # there is no request to respond to
        return False

    def _patience(self, waiting: WaitingFor) -> float:
        return self.limits.idle_seconds if waiting is WaitingFor.NEXT_REQUEST else self.limits.head_seconds

    def has_room(self, connections: Collection[Connection], now: float) -> bool:
        """Return whether another connection can be served, which is already among `connections`.

        If there are too many, the oldest of those that wait for their clients are closed.
        """
        if len(connections) <= self.limits.connections:
            return True
        states = [(*one.waiting(now), place, one) for place, one in enumerate(connections)]
        idle = sorted(state for state in states if self._is_idle(state[0], state[1], now))
        closed = idle[: max(1, self.limits.connections // _CLOSED_AT_ONCE)]
        for *_, connection in closed:
            connection.abort()
        self.log.warn(
            "connections", "too many connections", connections=len(connections), limit=self.limits.connections,
            closed=len(closed), error="the limit of open files is reached; raise it (ulimit -n)",
        )  # fmt: skip
        return bool(closed)

    def _is_idle(self, waiting: WaitingFor, since: float, now: float) -> bool:
        """Return whether a connection may be closed for a new one. A reader may pause for a while."""
        patience = self.limits.head_seconds if waiting is WaitingFor.READER else 0
        return waiting < WaitingFor.RESPONSE and now - since > patience

    def _abort_reader(self, connection: Connection) -> None:
        connection.abort()
        self.aborted_readers += 1
        self.log.warn(
            "reader", "slow reader aborted", aborted=self.aborted_readers,
            error=f"the client read nothing of its response for {self.limits.send_seconds:g} s "
            "(server.send_timeout_seconds)",
        )  # fmt: skip
