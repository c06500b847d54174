"""Responses that ended at the token limit: finds the incomplete call in a text, and renders the notice for the client.

A call that the limit cut is never delivered. A notice replaces it, because clients end a run silently if the text of a
response is empty, and display an incomplete call as the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_proxy.core.rescue import StreamingParser
from forge_proxy.core.rescue.grammar.json_keys import NAME_KEYS
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm, form_patterns
from forge_proxy.core.rescue.grammar.markup import ARGUMENT_TOKEN, CLOSER, INVOKE, OPENER

_OPENERS = (OPENER, INVOKE, ARGUMENT_TOKEN)
_HALF_OPENER = re.compile(
    r"(?:<[|｜]?/?(?:[\w.-]{1,24}[:_|｜])?(?:tool|func|invok)[^<>\n]{0,140}|<[|｜][^\s<>]{0,48}|\[TOOL_[A-Z]{0,6})\Z"
)
"""An incomplete opener that is long enough to be recognized: `<tool`, not `<t`."""
_KEYS = "|".join(NAME_KEYS)
_LONGEST_NAME = 64
LOOP_NOTICE = "The model was stopped because its reasoning only repeated itself; it gave no answer."
"""The text for the client if a loop left none; the finish reason is `length` in that case too."""


def find_incomplete_call(text: str, names: Sequence[str], form: LearnedForm | None = None) -> int | None:
    """Return the index in a text cut by the token limit where an incomplete call starts; None if there is none.

    `text` is the text without its complete calls; `form` is the form learned from the model's chat template. Only the
    part that the stream gate buffers is examined, so a streaming client has received everything before that index.
    """
    parser = StreamingParser(names, template_thinks=False, form=form)
    parser.feed(text)
    parser.decide_postponed()
    buffered = parser.buffered_text
    if not buffered.strip():
        return None
    begins = [
        found.start() for pattern in _OPENERS if (found := pattern.search(buffered)) and not _is_closed(buffered, found)
    ]
    if form and (begun := _find_begun(form, buffered)) is not None:
        begins.append(begun)
    if half := _HALF_OPENER.search(buffered):
        begins.append(half.start())
    if named := _match_named(names).search(buffered):
        begins.append(named.start())
    positions = [len(text) - len(buffered) + begin for begin in begins]
    return min((position for position in positions if not _is_in_code(text, position)), default=None)


def _find_begun(form: LearnedForm, buffered: str) -> int | None:
    """Return the start of a learned form, whole or unfinished, that no markup closes; None if there is none."""
    patterns = form_patterns(form)
    begun = patterns.begins.search(buffered) or patterns.unfinished.search(buffered)
    closer = patterns.call_closes
    is_closed = begun and closer.pattern and closer.search(buffered, begun.end())
    return begun.start() if begun and begun.group().strip() and not is_closed else None


def find_tool_name(fragment: str, names: Sequence[str]) -> str:
    """Return the tool that an incomplete call names, `""` if it was cut before the name."""
    found = [(position, name) for name in names if (position := fragment.find(name)) >= 0]
    return min(found, key=lambda each: (each[0], -len(each[1])))[1] if found else ""


def render_cut_notice(limit: int | None, tool: str | None, *, has_reasoning: bool = False) -> str:
    """Render the notice for the client: a call of `tool` was cut (`""` if unknown), or for None the text.

    `limit` is the client's own. None means that it set none: the model server's limit or its context was reached.
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


def _is_in_code(text: str, position: int) -> bool:
    """Whether the position is in inline code, so that the markup is only mentioned."""
    return text.count("`", text.rfind("\n", 0, position) + 1, position) % 2 == 1


def _is_closed(buffered: str, opener: re.Match[str]) -> bool:
    """Whether markup after an opener is closed: then the call was not cut but cannot be parsed."""
    return any(closer.group().strip() for closer in CLOSER.finditer(buffered, opener.end()))


def _match_named(names: Sequence[str]) -> re.Pattern[str]:
    """Match the start of a call without markup: an object that names an offered tool, or its name and a bracket."""
    named = "|".join(map(re.escape, names)) or r"(?!)"
    fence = r"(?:```\w{0,12}\s{0,8})?"
    return re.compile(
        rf"{fence}[\[]?\s{{0,8}}\{{\s{{0,20}}[\"'](?:{_KEYS})[\"']\s{{0,8}}:\s{{0,8}}[\"'](?:{named})[\"']"
        rf"|(?:^|(?<=\n)){fence}(?:{named})\("
    )
