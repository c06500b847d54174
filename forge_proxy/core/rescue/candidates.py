"""Decides whether a candidate in an incomplete text is a call, is plain text, or is still undecided."""

from __future__ import annotations

import re
from typing import NamedTuple

from forge_proxy.core.rescue.context.display_only import may_be_displayed
from forge_proxy.core.rescue.context.skip_unparsed import skip_brackets
from forge_proxy.core.rescue.grammar.markup import OPENER
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.readers.strict_json import read_strictly
from forge_proxy.core.rescue.text_parts import UNPARSABLE_CODE, PartKind, TextPart

_SURE = 700
"""Characters after an opener beyond which no further text can turn a mention into a call."""
_WORD = r"(?!json\b|commentary\b|function\b)[^\W\d]\w{0,40}"
_MENTION = re.compile(rf"\s{{0,8}}{_WORD}[,.;:]?[ ]{_WORD}[,.;:!?)]?[ ](?!=)")
"""Two words of a sentence after an opener: no name with arguments starts like this."""
_TAIL = 60
"""Characters of text after a call without markup beyond which it is a quotation, as is any text on another line."""
_MARKUP_LENGTH = 3
"""Characters needed to recognize markup that ends a call."""
_MARKUP = "{[<`✿>]"
_WORDS = re.compile(rf"[^\n{re.escape(_MARKUP)}]*")
_QUOTE = re.compile(r"[\"']")
_GAP = re.compile(r"[\s;,]*")


class Candidate(NamedTuple):
    """A possible call: its start, the end of what is certainly plain text, or whether it is certainly a call."""

    begins: int
    plain_to: int | None = None
    certain: bool = False


def judge_start(parser: Parser, low: int, text: str) -> Candidate:
    """Judge the start of the response, which may be a call without markup."""
    part = parser.read_start()
    if part:
        return _judge_part(parser, text, low, part)
    return Candidate(low, plain_to=low + 1 if _is_decided(text, 0, None) else None)


def judge_position(parser: Parser, position: int, low: int, text: str) -> Candidate:
    """Judge the candidate that starts at `position`."""
    begins = min(position, parser.surroundings.find_start(position, low))
    opener = OPENER.match(text, position)
    if opener and text[position + 1] not in "|｜" and _MENTION.match(text, opener.end()):
        return Candidate(begins, plain_to=opener.end())
    part = parser.read_part(position, low)
    if isinstance(part, TextPart):
        return _judge_part(parser, text, begins, part)
    if not parser.surroundings.may_open(position, low):
        return Candidate(begins, plain_to=position + 1)
    if not _is_decided(text, position, part) or part + _MARKUP_LENGTH > len(text):
        return Candidate(begins)
    if parser.is_unclosed_tool_tag(position):
        return Candidate(begins)
    return Candidate(begins, plain_to=max(part, position + 1))


def _judge_part(parser: Parser, text: str, begins: int, part: TextPart) -> Candidate:
    if part.kind is PartKind.PLAIN and part.form == UNPARSABLE_CODE and _QUOTE.search(text, part.start, part.end):
        return Candidate(begins)  # a later quote may show that its apparent end is inside a string
    if part.kind is PartKind.PLAIN:
        return Candidate(begins, plain_to=part.end if part.end + _MARKUP_LENGTH <= len(text) else None)
    is_complete = part.kind is PartKind.CALLS and not any(call.open for call in part.calls)
    if not is_complete:
        return Candidate(begins)
    if part.explicit:
        return Candidate(begins, certain=not may_be_displayed(text, part.start))
    return Candidate(begins, plain_to=part.end if _is_quoted(parser, text, part) else None)


def _is_quoted(parser: Parser, text: str, part: TextPart) -> bool:
    """Whether the text after a call without markup already shows that it is a quotation."""
    gap = _GAP.match(text, part.end)
    start = gap.end() if gap else part.end
    if parser.openers.may_announce(text[start : start + _TAIL]):
        return False
    words = _WORDS.match(text, start)
    end = words.end() if words else start
    if not text[start:end].strip():
        return False
    if part.fenced or end - start > _TAIL or "\n" in text[part.end : start]:
        return True
    rest = text[end:].lstrip()
    return (
        text.startswith("\n", end) and rest != "" and rest[0] not in _MARKUP and not parser.openers.may_announce(rest)
    )


def _is_decided(text: str, position: int, part: int | None) -> bool:
    """Whether no further text can turn this into a call."""
    match text[position : position + 1]:
        case "{":
            return part == position + 1 or read_strictly(text, position) is not None
        case "[" if not OPENER.match(text, position):
            end = skip_brackets(text, position)
            return end + _MARKUP_LENGTH <= len(text) and text[end - 1 : end] == "]"
        case _:
            return len(text) - position >= _SURE
