"""Interprets the response to a callback: a tool outcome, or a transient failure to retry. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from forge_proxy.core.jsontypes import Json, is_object, kind_of, read_value, skip_space
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tools import to_tool_outcome

_MAX_QUOTED_CHARS = 300
"""Maximum number of characters of an error body that the model receives."""
_TRANSIENT_STATUSES = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class TransientFailure:
    """A failure that may be retried. `after` is the server's `Retry-After` in seconds."""

    why: str
    after: float | None = None


def read_response(status: int, headers: Mapping[str, str], body: bytes, now: float) -> ToolOutcome | TransientFailure:
    """Interpret a response. `now` is Unix time in seconds, to evaluate a `Retry-After` date."""
    if status in _TRANSIENT_STATUSES or status >= 500:
        return TransientFailure(f"it answered {status}", _parse_retry_after(headers.get("Retry-After", ""), now))
    if 300 <= status < 400:
        return ToolOutcome.failed(f"the tool's server answered {status}, and redirects are not followed")
    if status != 200:
        quoted = " ".join(body.decode("utf-8", "replace").split())[:_MAX_QUOTED_CHARS]
        return ToolOutcome.failed(f"the tool's server answered {status}{': ' * bool(quoted)}{quoted}")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ToolOutcome.failed("the tool's response is not UTF-8 text")
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/plain":
        return to_tool_outcome(text)
    if kind == "application/json":
        return _read_json(text)
    return ToolOutcome.failed(f"the tool answered with {kind or 'no content type'}, not application/json or text/plain")


def _read_json(text: str) -> ToolOutcome:
    read = read_value(text, skip_space(text, 0))
    if read is None or skip_space(text, read[1]) < len(text):
        return ToolOutcome.failed("the tool's response is not valid JSON")
    match read[0]:
        case {"output": output, **rest} if not rest:
            return to_tool_outcome(output)
        case {"error": str(why), **rest} if not rest:
            return ToolOutcome.failed(why)
        case {"unresolved": str(why), **rest} if not rest:
            return ToolOutcome.soft(why)
        case other:
            return ToolOutcome.failed(
                f'the tool\'s response must be {{"output": …}}, {{"error": "…"}} or {{"unresolved": "…"}}, but is'
                f" {_describe_shape(other)}"
            )


def _describe_shape(value: Json) -> str:
    if not is_object(value):
        return f"of type {kind_of(value)}"
    return f"an object with {', '.join(sorted(value)) or 'nothing in it'}"[:_MAX_QUOTED_CHARS]


def _parse_retry_after(header: str, now: float) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date; None if it is invalid."""
    if header.isascii() and header.isdecimal():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, OverflowError):  # OverflowError: a number with too many digits
        return None
    return max(0.0, (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - now)
