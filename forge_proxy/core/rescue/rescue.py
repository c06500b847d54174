"""Extracts the tool calls from a complete text and returns them with the remaining text."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ObjectRepairer, ParseContext
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm
from forge_proxy.core.rescue.parser import Parser
from forge_proxy.core.rescue.readers.json_calls import ParsedCall
from forge_proxy.core.rescue.readers.strict_json import read_members
from forge_proxy.core.rescue.text_parts import PartKind, TextPart

_MAX_LEAD_IN = 400
"""Characters of text before a bare object beyond which it is an example in prose, not a call (heuristic)."""
_SEPARATORS = re.compile(r"[\s;,]*")
"""Separators allowed between calls without markup."""
_MAX_TAIL = 40
"""Characters of text after a bare object beyond which it is a quotation, as is any text on another line (heuristic)."""
_MARKUP_STARTS = "<[{(`>✿]"
"""Characters that may start markup and therefore need a closer match."""
_START_COST = 10
"""Worst-case microseconds for one of them, measured on the patterns in `tests/attack/texts.py`."""
_HEADS = ("Action:", "Call:", "TOOL_CALL")
"""Words that announce a call at the start of a line."""
_HEAD_COST = 40
_CHARACTERS_PER_MICROSECOND = 20
"""Characters of plain text parsed per microsecond."""


@dataclass(frozen=True, slots=True)
class RecoveredCall:
    """A tool call recovered from text: its syntax (`form`), its position (`start`, `end`) and the repairs it needed."""

    call: ToolCall
    form: str
    start: int
    end: int
    repairs: tuple[str, ...] = ()
    untyped: frozenset[str] = frozenset()
    """Parameters that arrived as raw text; their type comes from the schema."""
    positional: int = 0
    """Number of arguments without a name; they come first, under the keys `0`, `1`, …."""
    open: bool = False
    """Whether the text ended before the call was complete."""
    explicit: bool = True
    """Whether markup identifies this as a call."""


@dataclass(frozen=True, slots=True)
class RescueResult:
    """The calls in a text, the text without them, and its reasoning. `broken` is true if the text contains a call that
    cannot be parsed; `may_recover_more` is true if a parse with a larger effort budget might succeed.
    """

    text: str
    calls: tuple[RecoveredCall, ...] = ()
    broken: bool = False
    reasoning: str = ""
    implicit_reasoning: str = ""
    """The part of the reasoning that precedes a closing reasoning tag without an opening tag."""
    closes_reasoning: bool = False
    """Whether the text has a closing reasoning tag without an opening tag, even if `template_thinks` is false."""
    text_with_calls: str = ""
    """The text including the calls as the model wrote them; `""` if there are no calls."""
    may_recover_more: bool = False


def rescue(
    text: str,
    names: Collection[str],
    *,
    template_thinks: bool = True,
    repair: ObjectRepairer | None = None,
    form: LearnedForm | None = None,
    general: bool = True,
) -> RescueResult:
    """Return the calls in `text`, where `names` are the offered tools. Total: no input raises.

    Explicit markup is a call anywhere outside code, even if the tool is unknown. Bare and fenced JSON is a call only
    for an offered tool, at the end of the text, after a short lead-in at most. If `template_thinks` is true, the text
    before a closing reasoning tag without an opening tag is reasoning. `repair` is the last resort for broken objects.
    `form` is the markup learned from the model's chat template; without `general`, it is the only one.
    """
    context = ParseContext(names, repair, form, general=general)
    parts = list(Parser(text, context).parts())
    if not parts:
        return RescueResult(text, may_recover_more=context.may_recover_more)
    start, implicit_reasoning, reasoning_blocks = (
        0,
        "",
        [text[slice(*part.inner)] for part in parts if part.kind is PartKind.REASONING],
    )
    first_reasoning = next(
        (i for i, part in enumerate(parts) if part.kind in (PartKind.LONE_CLOSER, PartKind.REASONING)), None
    )
    has_lone_closer = first_reasoning is not None and parts[first_reasoning].kind is PartKind.LONE_CLOSER
    if template_thinks and first_reasoning is not None and has_lone_closer:
        implicit_reasoning = text[: parts[first_reasoning].start]
        reasoning_blocks.insert(0, implicit_reasoning)
        start = parts[first_reasoning].end
        parts = parts[first_reasoning + 1 :]
    intended = _select_intended(text, start, parts)
    recovered = tuple(_to_recovered_call(part, parsed, context) for part in intended for parsed in part.calls)
    broken = any(part.kind is PartKind.BROKEN for part in parts)
    reasoning = "\n".join(block.strip() for block in reasoning_blocks)
    remaining = _remove_parts(text, start, parts, intended)
    text_with_calls = _remove_parts(text, start, parts, []) if intended else ""
    return RescueResult(
        remaining,
        recovered,
        broken,
        reasoning,
        implicit_reasoning,
        has_lone_closer,
        text_with_calls,
        context.may_recover_more,
    )


def estimate_parse_time(text: str) -> int:
    """Return the worst-case time to parse the text on an ordinary machine, in microseconds.

    The estimate itself is cheap: it serves callers that must not block the event loop.
    """
    openings, heads = sum(map(text.count, _MARKUP_STARTS)), sum(map(text.count, _HEADS))
    return len(text) // _CHARACTERS_PER_MICROSECOND + _START_COST * openings + _HEAD_COST * heads


class RepairedArguments(NamedTuple):
    """The arguments of a call as JSON text (None if they cannot be parsed), the repairs, and whether a parse with a
    larger effort budget might succeed (`may_recover_more`).
    """

    text: str | None
    repairs: tuple[str, ...]
    may_recover_more: bool


def repair_arguments(text: str, repair: ObjectRepairer | None = None) -> RepairedArguments:
    """Repair the broken JSON arguments of a call that the model server parsed. Total: no input raises."""
    context = ParseContext((), repair)
    start = len(text) - len(text.lstrip())
    members = read_members(text, start, context)
    if members is None or members.open or text[members.end :].strip(" \t\r\n}"):
        return RepairedArguments(None, (), context.may_recover_more)
    return RepairedArguments(members.text, tuple(sorted(members.repairs)), may_recover_more=False)


def _to_recovered_call(part: TextPart, parsed: ParsedCall, context: ParseContext) -> RecoveredCall:
    # Without markup, a name counts only if it resolves to an offered tool.
    offered = None if part.explicit else context.resolve_name(parsed.call.tool)
    call = replace(parsed.call, tool=offered) if offered else parsed.call
    form = f"fenced-{part.form}" if part.fenced and not part.form.startswith("fenced-") else part.form
    repairs = tuple(sorted(parsed.repairs))
    return RecoveredCall(
        call, form, part.start, part.end, repairs, parsed.untyped, parsed.positional, parsed.open, part.explicit
    )


def _select_intended(text: str, start: int, parts: list[TextPart]) -> list[TextPart]:
    """Return the intended calls: those in markup, and the calls without markup at the end of the text."""
    explicit = [part for part in parts if part.kind is PartKind.CALLS and part.explicit]
    tail: list[TextPart] = []
    end, last = len(text), True
    for part in reversed(parts):
        after = text[part.end : end]
        if not _SEPARATORS.fullmatch(after) and not (last and _is_tail(text, start, part, after)):
            break
        end, last = part.start, last and part.kind is PartKind.NOISE
        if part.kind is PartKind.CALLS and not part.explicit:
            tail.insert(0, part)
        elif part.kind in (PartKind.BROKEN, PartKind.PLAIN):
            break
    if tail and text[start : tail[0].start].strip() and _is_list_of_functions(tail):
        tail = []
    if tail and not explicit and _length_before(text, start, parts, tail[0]) > _MAX_LEAD_IN:
        tail = []
    return sorted((*explicit, *tail), key=lambda part: part.start)


def _is_list_of_functions(tail: list[TextPart]) -> bool:
    """Whether these are only names, such as `get()` and `set()` on consecutive lines, without any argument."""
    calls = [parsed.call for part in tail for parsed in part.calls]
    return len(calls) > 1 and all(part.form == "pythonic" for part in tail) and not any(call.args() for call in calls)


def _is_tail(text: str, start: int, part: TextPart, after: str) -> bool:
    """Whether a call without markup is followed by so little text that it is still the end of the response."""
    if part.kind is not PartKind.CALLS or part.fenced or part.form != "json":
        return False
    trailing = after.strip()
    is_first = not text[start : part.start].strip()
    return "\n" not in after.rstrip() and (
        len(trailing) <= _MAX_TAIL if is_first else not any(map(str.isalnum, trailing))
    )


def _length_before(text: str, start: int, parts: list[TextPart], until: TextPart) -> int:
    """Return the length of the text before a part, in characters, without reasoning and special tokens."""
    length = 0
    for part in parts:
        length += len(text[start : part.start].strip())
        start = part.end
        if part is until:
            break
    return length


def _remove_parts(text: str, start: int, parts: list[TextPart], intended: list[TextPart]) -> str:
    """Return the text without calls, reasoning and special tokens. The text before and after a removed call or
    reasoning block is placed on separate lines.
    """
    intended_ids = {id(part) for part in intended}
    pieces = [""]
    at, last = start, PartKind.PLAIN
    for part in parts:
        if part.kind in (PartKind.BROKEN, PartKind.PLAIN) or (
            part.kind is PartKind.CALLS and id(part) not in intended_ids
        ):
            continue
        between = text[at : part.start]
        if not (last is part.kind is PartKind.CALLS and _SEPARATORS.fullmatch(between)):
            pieces[-1] += between
        at, last = part.end, part.kind
        if part.kind is PartKind.CALLS or part.kind is PartKind.REASONING:
            pieces += [parsed.text for parsed in part.calls if parsed.text]
            pieces.append("")
    pieces[-1] += text[at:]
    if start:
        pieces[0] = pieces[0].lstrip()
    if len(pieces) == 1:
        return pieces[0]
    stripped = [pieces[0].rstrip(), *(piece.strip() for piece in pieces[1:-1])]
    stripped.append(pieces[-1].strip() if intended else pieces[-1].lstrip())
    return "\n".join(piece for piece in stripped if piece)
