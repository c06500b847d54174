"""pydantic's words for a wrong field, as our own error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge_proxy.core.errors import InvalidRequest

_WHERE = ("body", "query", "path")


def wrong_field(faults: Sequence[Any]) -> InvalidRequest:
    """The first of pydantic's faults, with the field's name. What was sent is not shown: it may be a secret."""
    first = faults[0]
    at = ".".join(str(part) for part in first["loc"] if part not in _WHERE)
    why = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        why = "no such field"
    elif first["type"] == "json_invalid":
        at, why = "body", f"not JSON: {first['ctx']['error']}"
    return InvalidRequest(at or "body", why)
