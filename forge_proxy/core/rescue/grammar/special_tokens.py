"""Special tokens outside calls: reasoning tags, message headers and tokens without meaning."""

from __future__ import annotations

import re
from typing import NamedTuple

from forge_proxy.core.rescue.grammar.headers import BEFORE_MENTION, MESSAGE_END, THINK_CLOSE, THINK_OPEN, read_header
from forge_proxy.core.rescue.grammar.markup import NOISE


class SpecialToken(NamedTuple):
    """A special token: `thought` is the pattern that ends the reasoning it opens; `closes` means that it ends one."""

    end: int
    thought: re.Pattern[str] | None = None
    closes: bool = False


def end_of_mention(text: str, position: int) -> int:
    """Return the end of the token at `position` if it is a separate word and may be a mention; 0 otherwise."""
    if text[max(0, position - 1) : position] not in BEFORE_MENTION or read_header(text, position):
        return 0
    edge = THINK_OPEN.match(text, position) or THINK_CLOSE.match(text, position)
    token = edge or (NOISE.match(text, position) if text[position] == "<" else None)
    return token.end() if token else 0


def read_token(text: str, position: int, *, opens: bool) -> SpecialToken | None:
    """Return the token at `position` if it is not part of a call; None if there is none or it is incomplete. `opens` is
    whether a call may start there.
    """
    if header := read_header(text, position):
        return (
            SpecialToken(header.end, MESSAGE_END if header.audience == "self" else None)
            if header.audience != "tool"
            else None
        )
    if opening := THINK_OPEN.match(text, position):
        return (
            SpecialToken(opening.end(), THINK_CLOSE) if opening.end() < len(text) or text.endswith((">", "]")) else None
        )
    if closing := THINK_CLOSE.match(text, position):
        return SpecialToken(closing.end(), closes=True)
    noise = NOISE.match(text, position)
    return SpecialToken(noise.end()) if noise and not opens else None
