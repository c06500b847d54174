"""Responses that ended at the token limit: which part of a text is an incomplete call, and what the client receives.

A call that the limit cut is never delivered. In its place the text says what happened: clients end a run silently if
the text of a response is empty, and show markup as the answer if it is the beginning of a call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_proxy.core.rescue import StreamingParser
from forge_proxy.core.rescue.grammar.json_keys import NAME_KEYS
from forge_proxy.core.rescue.grammar.markup import ARGUMENT_TOKEN, CLOSER, INVOKE, OPENER

_OPENERS = (OPENER, INVOKE, ARGUMENT_TOKEN)
_HALF_OPENER = re.compile(
    r"(?:<[|｜]?/?(?:[\w.-]{1,24}[:_|｜])?(?:tool|func|invok)[^<>\n]{0,140}|<[|｜][^\s<>]{0,48}|\[TOOL_[A-Z]{0,6})\Z"
)
"""An opener that ends in the middle, once it cannot be much else: `<tool`, not `<t`."""
_KEYS = "|".join(NAME_KEYS)
_LONGEST_NAME = 64
LOOP_NOTICE = "The model was stopped because its reasoning only repeated itself; it gave no answer."
"""What the client reads if there is no text because of a loop: the finish reason is `length` then, too."""


def find_incomplete_call(text: str, names: Sequence[str]) -> int | None:
    """The place in a text that ended at the token limit where a call begins that is not complete; None for no call.

    `text` is what remains once the complete calls were taken out. Only what the stream gate holds back is looked at, so
    nothing before the place was withheld from a client that reads a stream.
    """
    scan = StreamingParser(names, template_thinks=False)
    scan.feed(text)
    scan.decide_postponed()
    held = scan.buffered_text
    if not held.strip():
        return None
    begins = [found.start() for pattern in _OPENERS if (found := pattern.search(held)) and not _is_closed(held, found)]
    if half := _HALF_OPENER.search(held):
        begins.append(half.start())
    if named := _named(names).search(held):
        begins.append(named.start())
    places = [len(text) - len(held) + begin for begin in begins]
    return min((place for place in places if not _is_in_code(text, place)), default=None)


def find_tool_name(fragment: str, names: Sequence[str]) -> str:
    """The tool that the beginning of a call names, `""` if it does not come to that."""
    found = [(place, name) for name in names if (place := fragment.find(name)) >= 0]
    return min(found, key=lambda each: (each[0], -len(each[1])))[1] if found else ""


def render_cut_notice(limit: int | None, tool: str | None, *, has_reasoning: bool = False) -> str:
    """What the client reads in place of what was cut: a call of `tool` (`""` if unknown), or for None all text.

    `limit` is the client's own, None if it set none: then the limit was the model server's, or its context was full.
    """
    if limit is None:
        where, remedy = "the model server's token limit", "set max_tokens, shorten the conversation"
    else:
        where, remedy = f"the token limit ({limit} tokens)", "raise max_tokens"
    if tool is None and has_reasoning:
        return (
            f"The model reached {where} while it was reasoning and gave no answer; {remedy} or ask for less reasoning."
        )
    if tool is None:
        return f"The model reached {where} before it gave an answer; {remedy} or ask for smaller steps."
    what = f"call of {tool[:_LONGEST_NAME]}" if tool else "tool call"
    return f"The model's {what} was cut off at {where}; {remedy} or ask for smaller steps."


def _is_in_code(text: str, place: int) -> bool:
    """Whether the place is in inline code: then the markup is only mentioned."""
    return text.count("`", text.rfind("\n", 0, place) + 1, place) % 2 == 1


def _is_closed(held: str, opener: re.Match[str]) -> bool:
    """Whether markup is closed behind an opener: then it is no call that was cut, but one that cannot be read."""
    return any(closer.group().strip() for closer in CLOSER.finditer(held, opener.end()))


def _named(names: Sequence[str]) -> re.Pattern[str]:
    """The beginning of a call without markup: an object that names an offered tool, or its name and a bracket."""
    named = "|".join(map(re.escape, names)) or r"(?!)"
    fence = r"(?:```\w{0,12}\s{0,8})?"
    return re.compile(
        rf"{fence}[\[]?\s{{0,8}}\{{\s{{0,20}}[\"'](?:{_KEYS})[\"']\s{{0,8}}:\s{{0,8}}[\"'](?:{named})[\"']"
        rf"|(?:^|(?<=\n)){fence}(?:{named})\("
    )
