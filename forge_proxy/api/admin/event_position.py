"""Where a stream of events begins: `?after=`, or the header `Last-Event-ID`."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from fastapi import Header, Query

from forge_proxy.core.errors import InvalidRequest

_MAX_JOB_EVENT = 2**31 - 1
MAX_FEED_ID = 2**53 - 1
"""The largest id of an event of the daemon: a larger number has no exact value in JavaScript."""
AFTER: TypeAlias = Annotated[
    int, Query(ge=0, le=_MAX_JOB_EVENT, description="The id of an event; only later ones are sent.")
]
FEED_AFTER: TypeAlias = Annotated[
    int, Query(ge=0, le=MAX_FEED_ID, description="The id of an event; only later ones are sent.")
]
LAST_EVENT_ID: TypeAlias = Annotated[
    str | None, Header(description="The same, sent by browsers that reconnect; it takes precedence.")
]


def read_position(after: int, last_event_id: str | None, largest: int = _MAX_JOB_EVENT) -> int:
    """Return the id of the last event that the client has. Raises `InvalidRequest`."""
    if last_event_id is None:
        return after
    if not re.fullmatch("[0-9]{1,16}", last_event_id) or int(last_event_id) > largest:
        raise InvalidRequest("Last-Event-ID", "expected the id of an event, which is a number")
    return int(last_event_id)
