"""Tokens that are no part of a call: the edges of thoughts, message headers, and what says nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

from forge_proxy.core.rescue.grammar.headers import BEFORE_MENTION, MESSAGE_END, THINK_CLOSE, THINK_OPEN, read_header
from forge_proxy.core.rescue.grammar.markup import NOISE


class SpecialToken(NamedTuple):
    """A token that is no text: `thought` is what ends the thought that it begins, `closes` says that it ends one."""

    end: int
    thought: re.Pattern[str] | None = None
    closes: bool = False


def end_of_mention(text: str, place: int) -> int:
    """Where the token at `place` ends that may be only mentioned, being a word of its own so far; 0 for none."""
    if text[max(0, place - 1) : place] not in BEFORE_MENTION or read_header(text, place):
        return 0
    edge = THINK_OPEN.match(text, place) or THINK_CLOSE.match(text, place)
    token = edge or (NOISE.match(text, place) if text[place] == "<" else None)
    return token.end() if token else 0


def read_token(text: str, place: int, *, opens: bool) -> SpecialToken | None:
    """The token at `place` that is no part of a call; None if there is none, or it is not whole yet. `opens` says
    whether a call may begin there.
    """
    if header := read_header(text, place):
        return (
            SpecialToken(header.end, MESSAGE_END if header.audience == "self" else None)
            if header.audience != "tool"
            else None
        )
    if opening := THINK_OPEN.match(text, place):
        return (
            SpecialToken(opening.end(), THINK_CLOSE) if opening.end() < len(text) or text.endswith((">", "]")) else None
        )
    if closing := THINK_CLOSE.match(text, place):
        return SpecialToken(closing.end(), closes=True)
    noise = NOISE.match(text, place)
    return SpecialToken(noise.end()) if noise and not opens else None
