"""The parts of a text that are not plain, as `Parser` finds them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from forge_proxy.core.rescue.parsed_call import ParsedCall

UNREADABLE = "unreadable"
"""The form of what seems to be a call in code and cannot be read."""


class PartKind(StrEnum):
    """What a part of a text is."""

    CALLS = "calls"
    NOISE = "noise"
    """Markup without a meaning of its own."""
    THOUGHT = "thought"
    LONE_CLOSER = "lone closer"
    """The end of thoughts whose beginning the chat template wrote."""
    PLAIN = "plain"
    """What looks like a call of an offered tool and is none: text, in which no call is looked for."""
    BROKEN = "broken"
    """A call was begun and cannot be read."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text that is not plain; `inner` is where the words of a thought stand."""

    kind: PartKind
    start: int
    end: int
    calls: tuple[ParsedCall, ...] = ()
    form: str = ""
    explicit: bool = True
    """Whether the markup alone says that this is a call."""
    fenced: bool = False
    inner: tuple[int, int] = (0, 0)
