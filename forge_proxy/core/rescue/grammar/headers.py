"""Message headers, reasoning tags and other special tokens outside calls: the audience of each part of the text.

Harmony and related formats write `<|start|>assistant to=functions.f<|channel|>commentary<|message|>` before each part;
most other models put their reasoning between tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from forge_proxy.core.rescue.grammar.markup import NOISE

Audience = Literal["tool", "self", "user"]

HEADER = re.compile(
    r"(?:<\|start\|>[^<>\n]{0,100}|(?=<\|(?:channel|message)\|>))"
    r"(?:<\|(?:channel|constrain)\|>[^<>\n]{0,100}){0,4}<\|message\|>"
)
FIRST_HEADER = re.compile(
    r"\s{0,4}(?:assistant\s)?to=[^\s<>|]{1,128}[^<>\n]{0,40}(?:<\|(?:channel|constrain)\|>[^<>\n]{0,100}){0,4}<\|message\|>"
)
"""The header of the first message, whose start is in the chat template."""
_RECIPIENT = re.compile(r"\bto=([^\s<>|]{1,128})")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_AUDIENCES: dict[str, Audience] = {"self": "self", "user": "user", "all": "user", "commentary": "user", "final": "user"}
MESSAGE_END = re.compile(r"<\|(?:end|eom|eot|return|call)\|>|(?=<\|(?:start|channel)\|>)")

_WORD = r"(?:think(?:ing)?|thought|reasoning|reflection|cot_budget_reflect)"
THINK_OPEN = re.compile(
    rf"<(?:\w[\w.-]{{0,15}}[:|｜])?{_WORD}>|<[|｜](?:\w{{1,16}}:)?(?:begin_|start_)?{_WORD}(?:_(?:begin|start))?(?::\w{{1,16}})?[|｜]>"
    r"|<\|START_THINKING\|>|<\|open\|>think<\|sep\|>|\[THINK\]|<\|channel>(?:thought|analysis)\b"
)
THINK_CLOSE = re.compile(
    rf"</(?:[\w.-]{{1,16}}[:|｜])?{_WORD}>|<[|｜]/?(?:\w{{1,16}}:)?(?:end_){_WORD}(?::\w{{1,16}})?[|｜]>|<[|｜]/{_WORD}[|｜]>"
    rf"|<[|｜]{_WORD}_end[|｜]>|<\|END_THINKING\|>|<\|close\|>think<\|sep\|>|\[/THINK\]"
    r"|<channel\|>|\[BEGIN FINAL RESPONSE\]"
)


_PARTNERS = {'"': '"', "'": "'", "“": "”", "‘": "’", "(": ")"}
_BEFORE_MENTION = frozenset({" ", *_PARTNERS})
"""Characters that may precede a token that is only mentioned."""


def is_mention(text: str, start: int, end: int) -> bool:
    """Whether a token is used as a word in a sentence or is quoted, as in a response about special tokens."""
    before = text[max(0, start - 1) : start]
    if before in _PARTNERS:
        return text.startswith(_PARTNERS[before], end)
    # A space may follow a token that opens reasoning, so it does not indicate a mention.
    following = tuple(",.;:!?)") if THINK_OPEN.match(text, start) else tuple(" ,.;:!?)")
    return before == " " and text.startswith(following, end)


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """The audience of the message that starts at `end`, and the tool name if the audience is a tool."""

    audience: Audience
    tool: str
    start: int
    end: int


def read_header(text: str, at: int) -> MessageHeader | None:
    """Return the message header at `at`; None if there is none."""
    match = HEADER.match(text, at) or (FIRST_HEADER.match(text, at) if at == 0 else None)
    if not match:
        return None
    recipient = _RECIPIENT.search(match.group())
    channel = _CHANNEL.search(match.group())
    if recipient and recipient[1] not in _AUDIENCES and recipient[1] != "assistant":
        name = recipient[1].removeprefix("functions.")
        return MessageHeader("tool", name, match.start(), match.end())
    if recipient and recipient[1] in _AUDIENCES:
        return MessageHeader(_AUDIENCES[recipient[1]], "", match.start(), match.end())
    audience: Audience = "self" if channel and channel[1] in ("analysis", "thought") else "user"
    return MessageHeader(audience, "", match.start(), match.end())


class SpecialToken(NamedTuple):
    """A special token. `reasoning_end` matches the end of reasoning that it opens; `closes` is true if it ends one."""

    end: int
    reasoning_end: re.Pattern[str] | None = None
    closes: bool = False


def find_mention_end(text: str, position: int) -> int:
    """Return the end of the token at `position` if it is a separate word and may be a mention; 0 otherwise."""
    if text[max(0, position - 1) : position] not in _BEFORE_MENTION or read_header(text, position):
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
