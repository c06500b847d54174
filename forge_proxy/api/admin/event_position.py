"""Where a stream of events begins: `?after=`, or the header `Last-Event-ID`."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from fastapi import Header, Query

from forge_proxy.core.errors import InvalidRequest

AFTER: TypeAlias = Annotated[
    int, Query(ge=0, le=2**31 - 1, description="The id of an event; only later ones are sent.")
]
LAST_EVENT_ID: TypeAlias = Annotated[
    str | None, Header(description="The same, sent by browsers that reconnect; it takes precedence.")
]


def read_position(after: int, last_event_id: str | None) -> int:
    """Return the id of the last event that the client has. Raises `InvalidRequest`."""
    if last_event_id is None:
        return after
    if not re.fullmatch("[0-9]{1,10}", last_event_id) or int(last_event_id) >= 2**31:
        raise InvalidRequest("Last-Event-ID", "expected the id of an event, which is a number")
    return int(last_event_id)
