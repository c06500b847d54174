"""Whether what may be a call, in a text that is still being written, is one for certain, or none, or neither yet."""

from __future__ import annotations

import re
from typing import NamedTuple

from forge_proxy.core.rescue.context.display_only import may_be_shown
from forge_proxy.core.rescue.context.skip_unparsed import past_brackets
from forge_proxy.core.rescue.context.text_parts import UNREADABLE, PartKind, TextPart
from forge_proxy.core.rescue.grammar.markup import OPENER
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.readers.strict_json import read_strictly

_SURE = 700
"""Characters behind an opener after which no more text can turn a mere mention into a call."""
_WORD = r"(?!json\b|commentary\b|function\b)[^\W\d]\w{0,40}"
_MENTION = re.compile(rf"\s{{0,8}}{_WORD}[,.;:]?[ ]{_WORD}[,.;:!?)]?[ ](?!=)")
"""Two words of a sentence behind an opener: no name with arguments begins so."""
_TAIL = 60
"""More words than this behind a loose call, or any on another line, certainly make it a quotation."""
_MARK = 3
"""Characters that tell whether markup begins which ends a call."""
_MARKUP = "{[<`✿>]"
_WORDS = re.compile(rf"[^\n{re.escape(_MARKUP)}]*")
_QUOTE = re.compile(r"[\"']")
_GAP = re.compile(r"[\s;,]*")


class Candidate(NamedTuple):
    """Where a possible call begins; up to where it certainly is plain text after all; or that it certainly is one."""

    begins: int
    plain_to: int | None = None
    certain: bool = False


def judge_start(walk: Parser, low: int, text: str) -> Candidate:
    """What the answer begins with, where that may be a call without markup."""
    part = walk.first()
    if part:
        return _judge_part(walk, text, low, part)
    return Candidate(low, plain_to=1 if _is_decided(text, 0, None) else None)


def judge_place(walk: Parser, place: int, low: int, text: str) -> Candidate:
    """What stands at `place`, where something begins that may be a call."""
    begins = min(place, walk.around.begins(place, low))
    opener = OPENER.match(text, place)
    if opener and text[place + 1] not in "|｜" and _MENTION.match(text, opener.end()):
        return Candidate(begins, plain_to=opener.end())
    part = walk.part_at(place, low)
    if isinstance(part, TextPart):
        return _judge_part(walk, text, begins, part)
    if not walk.around.may_open(place, low):
        return Candidate(begins, plain_to=place + 1)
    if not _is_decided(text, place, part) or part + _MARK > len(text):
        return Candidate(begins)
    return Candidate(begins, plain_to=max(part, place + 1))


def _judge_part(walk: Parser, text: str, begins: int, part: TextPart) -> Candidate:
    if part.kind is PartKind.PLAIN and part.form == UNREADABLE and _QUOTE.search(text, part.start, part.end):
        return Candidate(begins)  # a quote to come may show that what seems to end it stands in a string
    if part.kind is PartKind.PLAIN:
        return Candidate(begins, plain_to=part.end if part.end + _MARK <= len(text) else None)
    whole = part.kind is PartKind.CALLS and not any(said.open for said in part.calls)
    if not whole:
        return Candidate(begins)
    if part.explicit:
        return Candidate(begins, certain=not may_be_shown(text, part.start))
    return Candidate(begins, plain_to=part.end if _is_quoted(walk, text, part) else None)


def _is_quoted(walk: Parser, text: str, part: TextPart) -> bool:
    """Whether what follows a loose call already makes sure that it was only shown."""
    gap = _GAP.match(text, part.end)
    start = gap.end() if gap else part.end
    if walk.openers.may_announce(text[start : start + _TAIL]):
        return False
    words = _WORDS.match(text, start)
    end = words.end() if words else start
    if not text[start:end].strip():
        return False
    if part.fenced or end - start > _TAIL or "\n" in text[part.end : start]:
        return True
    rest = text[end:].lstrip()
    return text.startswith("\n", end) and rest != "" and rest[0] not in _MARKUP and not walk.openers.may_announce(rest)


def _is_decided(text: str, place: int, part: int | None) -> bool:
    """Whether no more text can make a call of what is none now."""
    match text[place : place + 1]:
        case "{":
            return part == place + 1 or read_strictly(text, place) is not None
        case "[" if not OPENER.match(text, place):
            end = past_brackets(text, place)
            return end + _MARK <= len(text) and text[end - 1 : end] == "]"
        case _:
            return len(text) - place >= _SURE
