"""The events of the daemon as its followers receive them, and which of them a follower chooses.

`telemetry/event_feed.py` keeps the latest ones, `GET /admin/v1/events` streams them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

EventLevel: TypeAlias = Literal["info", "warning", "error"]
EventName: TypeAlias = Literal[
    "abandoned",
    "answered",
    "backend slots",
    "budget",
    "chat template learned",
    "chat template not learned",
    "compacted",
    "failed",
    "fault rate above its past",
    "fault rate as before",
    "fields omitted",
    "job",
    "loop",
    "model not loaded",
    "model server",
    "model swapped",
    "notification failed",
    "prompt truncated",
    "request format adapted",
    "retried",
    "run",
    "run not resumable",
    "sampling",
    "tool executed",
    "tool server failed",
    "unusable schemas",
]
"""The names of the events of the engine, which are those of their log lines."""
_ORDER: tuple[EventLevel, ...] = ("info", "warning", "error")


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event with the fields of its log line. It contains no prompt, no response and no secret."""

    id: int
    """Microseconds since 1970, or one more than the previous id if that is greater: ids grow across restarts."""
    name: EventName
    level: EventLevel
    fields: dict[str, Any]
    """JSON values. Events of requests have `request_id`, and as far as known `model`, `client` and `program`."""

    @property
    def seconds(self) -> float:
        """When it happened, in seconds since 1970."""
        return self.id / 1e6


NoticeKind: TypeAlias = Literal["gap", "dropped", "stopping"]


@dataclass(frozen=True, slots=True)
class FeedNotice:
    """A message of the feed itself to one follower. After `dropped` and `stopping` the feed ends."""

    kind: NoticeKind
    message: str


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events that a follower chooses: those that meet all of the conditions that are given."""

    names: frozenset[EventName] = frozenset()
    model: str | None = None
    """The model that a client named, or the one that answers."""
    client: str | None = None
    """The label of the client's key, or the program that it names, with its version or without."""
    request_id: str | None = None
    level: EventLevel = "info"
    """The lowest level."""

    def matches(self, event: FeedEvent) -> bool:
        """Return whether an event meets all conditions."""
        fields = event.fields
        return (
            (not self.names or event.name in self.names)
            and _ORDER.index(event.level) >= _ORDER.index(self.level)
            and (self.request_id is None or fields.get("request_id") == self.request_id)
            and (self.model is None or self.model in (fields.get("model"), fields.get("served")))
            and (self.client is None or self.client in _client_names(fields))
        )


def _client_names(fields: dict[str, Any]) -> tuple[str, ...]:
    program = str(fields.get("program", ""))
    return (str(fields.get("client", "")), program, program.partition("/")[0])
