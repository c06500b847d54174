"""What the answer to a callback means: the outcome of the call, or that it is worth asking again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from forge_proxy.core.jsontypes import Json, is_object, kind_of, read_value, skip_space
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.workflows.tools import told

_QUOTED = 300
"""Characters of an error's body that the model is told."""
_PASSING = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class TransientFailure:
    """It failed in a way that may pass. `after` is how many seconds the server wants left to it."""

    why: str
    after: float | None = None


def read_answer(status: int, headers: Mapping[str, str], body: bytes, now: float) -> ToolOutcome | TransientFailure:
    """What an answer means. `now` is in seconds since 1970, for a `Retry-After` that is a date."""
    if status in _PASSING or status >= 500:
        return TransientFailure(f"it answered {status}", _retry_after(headers.get("Retry-After", ""), now))
    if 300 <= status < 400:
        return ToolOutcome.failed(f"the tool's server answered {status}, and redirects are not followed")
    if status != 200:
        said = " ".join(body.decode("utf-8", "replace").split())[:_QUOTED]
        return ToolOutcome.failed(f"the tool's server answered {status}{': ' * bool(said)}{said}")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ToolOutcome.failed("the tool's answer is no UTF-8 text")
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/plain":
        return told(text)
    if kind == "application/json":
        return _read_json(text)
    return ToolOutcome.failed(f"the tool answered with {kind or 'no content type'}, not application/json or text/plain")


def _read_json(text: str) -> ToolOutcome:
    read = read_value(text, skip_space(text, 0))
    if read is None or skip_space(text, read[1]) < len(text):
        return ToolOutcome.failed("the tool's answer is no valid JSON")
    match read[0]:
        case {"output": output, **rest} if not rest:
            return told(output)
        case {"error": str(why), **rest} if not rest:
            return ToolOutcome.failed(why)
        case {"unresolved": str(why), **rest} if not rest:
            return ToolOutcome.soft(why)
        case other:
            return ToolOutcome.failed(
                f'the tool\'s answer has to be {{"output": …}}, {{"error": "…"}} or {{"unresolved": "…"}}, and is'
                f" {_shape(other)}"
            )


def _shape(value: Json) -> str:
    if not is_object(value):
        return f"of type {kind_of(value)}"
    return f"an object with {', '.join(sorted(value)) or 'nothing in it'}"[:_QUOTED]


def _retry_after(said: str, now: float) -> float | None:
    """Seconds of a `Retry-After`, which is a number or a date; None for anything else."""
    if said.isascii() and said.isdecimal():
        return float(said)
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, OverflowError):  # the latter of a number with too many digits
        return None
    return max(0.0, (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - now)
