"""The parts of a text that are not plain text, as `Parser` yields them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from forge_proxy.core.rescue.readers.json_calls import ParsedCall

UNPARSABLE_CODE = "unparsable code"
"""The form of an unparsable candidate that looks like a call in code."""


class PartKind(StrEnum):
    """The kind of a part."""

    CALLS = "calls"
    NOISE = "noise"
    """Markup without meaning, which is dropped."""
    REASONING = "reasoning"
    LONE_CLOSER = "lone closer"
    """A closing reasoning tag whose opening tag is in the chat template."""
    PLAIN = "plain"
    """Text that resembles a call of an offered tool; it is not searched for calls."""
    BROKEN = "broken"
    """A call that was started and cannot be parsed."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part that is not plain text; `inner` is the span of the content of a reasoning block."""

    kind: PartKind
    start: int
    end: int
    calls: tuple[ParsedCall, ...] = ()
    form: str = ""
    explicit: bool = True
    """Whether the markup alone identifies this as a call."""
    fenced: bool = False
    inner: tuple[int, int] = (0, 0)
