"""Reads calls in the markup that was learned from the model's chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from forge_proxy.core.jsontypes import Json, is_object, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.json_keys import METADATA_KEYS
from forge_proxy.core.rescue.grammar.learned_form import BY_KEY, ArgumentStyle, FormPatterns, LearnedForm, form_patterns
from forge_proxy.core.rescue.readers.json_calls import MAX_CALLS, ParsedCall, read_json_arguments
from forge_proxy.core.rescue.readers.lenient_json import LenientReader, Unreadable
from forge_proxy.core.rescue.readers.strict_json import JsonMembers, JsonValue, read_members
from forge_proxy.core.rescue.readers.tags import CDATA, CDATA_END, join_cdata

SHAPE = "template"
"""The name of the form in reports."""
_NORMAL = frozenset({"quotes", "words", "keys", "line breaks"})
"""Deviations from JSON that are normal in a template's own literals and therefore not reported as repairs."""


@dataclass(slots=True)
class _Arguments:
    """Arguments written one by one, and the position after them. `open`: whether the text ended inside a value."""

    end: int
    values: dict[str, Json] = field(default_factory=dict[str, Json])
    untyped: set[str] = field(default_factory=set[str])
    repairs: set[str] = field(default_factory=set[str])
    open: bool = False


def read_learned_calls(
    text: str, at: int, form: LearnedForm, context: ParseContext
) -> tuple[list[ParsedCall], int, str] | None:
    """Read consecutive calls whose opening markup is at `at`; None if there are none or the first is unreadable."""
    patterns = form_patterns(form)
    opening = patterns.opener.match(text, at)
    if opening is None:
        return None
    calls: list[ParsedCall] = []
    at = end = opening.end()
    while len(calls) <= MAX_CALLS and (read := _read_call(text, at, form, patterns, context)):
        calls.append(read[0])
        end = read[1]
        following = patterns.next_call.match(text, end)
        if read[0].open or following is None:
            break
        at = following.end()
    if not calls:
        return None
    closing = patterns.block_closes.match(text, end)
    return calls, closing.end() if closing else end, SHAPE


def read_begun_name(text: str, at: int, form: LearnedForm) -> str | None:
    """Return the name that follows the opening markup at `at`, as written; None if none does. In an object it may be
    anywhere, so that the opening brace suffices, with the name `""`.
    """
    patterns = form_patterns(form)
    opening = patterns.opener.match(text, at)
    if opening is None:
        return None
    if form.shape == "object":
        return "" if text.startswith("{", opening.end()) else None
    name = patterns.name.match(text, opening.end())
    return name["name"] if name else None


def find_call_end(text: str, at: int, form: LearnedForm) -> int:
    """Return the position after an unreadable call at `at`: after its closing markup, or the end of the text."""
    patterns = form_patterns(form)
    for closer in (patterns.call_closes, patterns.block_closes):
        if closer.pattern and (closing := closer.search(text, at)):
            return closing.end()
    return len(text)


def _read_call(
    text: str, at: int, form: LearnedForm, patterns: FormPatterns, context: ParseContext
) -> tuple[ParsedCall, int] | None:
    if form.shape == "object":
        members = read_members(text, at, context)
        parsed = _read_object(members, form, context) if members else None
        return (parsed, _skip(patterns.call_closes, text, members.end)) if members and parsed else None
    name = patterns.name.match(text, at)
    if name is None:
        return None
    if form.shape == "named":
        members = read_members(text, name.end(), context)
        if members is None:
            return _read_without_arguments(text, name, patterns, context)
        parsed = ParsedCall(ToolCall(name["name"], members.text), members.repairs, open=members.open)
        return parsed, _skip(patterns.call_closes, text, members.end)
    return _read_single_arguments(text, name, form, patterns, context)


def _read_without_arguments(
    text: str, name: re.Match[str], patterns: FormPatterns, context: ParseContext
) -> tuple[ParsedCall, int] | None:
    closing = patterns.call_closes.match(text, name.end())
    if not closing or closing.end() == name.end() or context.resolve_name(name["name"]) is None:
        return None
    return ParsedCall(ToolCall(name["name"], "{}")), closing.end()


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _read_object(members: JsonMembers, form: LearnedForm, context: ParseContext) -> ParsedCall | None:
    if form.name_path == BY_KEY:
        if len(members.values) != 1:
            return None
        ((name, arguments_value),) = members.values.items()
        arguments = read_json_arguments(arguments_value, context)
    else:
        found = _value_at(members, form.name_path, context)
        if found is None or not isinstance(found.value, str) or not found.value:
            return None
        written = _value_at(members, form.arguments_path, context)
        if not form.is_distinctive and not _may_be_alone(members, written, form):
            return None
        name, arguments = found.value, read_json_arguments(written, context)
    if arguments is None:
        return None
    return ParsedCall(ToolCall(name, arguments[0]), members.repairs | arguments[2], open=members.open)


def _may_be_alone(members: JsonMembers, arguments: JsonValue | None, form: LearnedForm) -> bool:
    """Whether an object without markup is a call, rather than other data or the definition of a tool."""
    if arguments is None or members.values.keys() - METADATA_KEYS - {form.name_path[0], form.arguments_path[0]}:
        return False
    return not (is_object(arguments.value) and "properties" in arguments.value and "type" in arguments.value)


def _value_at(members: JsonMembers, path: tuple[str, ...], context: ParseContext) -> JsonValue | None:
    value = members.values.get(path[0])
    for key in path[1:]:
        inner = read_members(value.text, 0, context) if value and is_object(value.value) else None
        value = inner.values.get(key) if inner else None
    return value


def _read_single_arguments(
    text: str, name: re.Match[str], form: LearnedForm, patterns: FormPatterns, context: ParseContext
) -> tuple[ParsedCall, int] | None:
    arguments = _Arguments(name.end())
    while not arguments.open and (found := _find_argument(text, arguments.end, form, patterns)):
        style, opening, ending = found
        if not _read_value(text, opening, style, ending, arguments, context):
            return None
    closing = patterns.call_closes.match(text, arguments.end)
    is_open = arguments.open or (closing is None and _ends_inside(text, arguments.end, form.call_closes))
    if closing is None and not is_open:
        return None
    if not arguments.values and context.resolve_name(name["name"]) is None:  # a word between two tags
        return None
    call = ToolCall(name["name"], write(arguments.values))
    parsed = ParsedCall(call, frozenset(arguments.repairs), frozenset(arguments.untyped), open=is_open)
    return parsed, closing.end() if closing and not is_open else len(text)


def _find_argument(
    text: str, at: int, form: LearnedForm, patterns: FormPatterns
) -> tuple[ArgumentStyle, re.Match[str], re.Pattern[str]] | None:
    for place, style in enumerate(form.styles):
        if opening := patterns.arguments[place].match(text, at):
            return style, opening, patterns.value_end(place, opening["key"])
    return None


def _read_value(
    text: str,
    opening: re.Match[str],
    style: ArgumentStyle,
    ending: re.Pattern[str],
    arguments: _Arguments,
    context: ParseContext,
) -> bool:
    """Read the value after `opening`; return whether it is readable."""
    key, start = opening["key"], opening.end()
    if style.encoding == "literal":
        return _read_literal(text, key, start, ending, arguments, context)
    if not context.may_search(len(text) - start):
        return False
    cdata = CDATA.match(text, start)
    cdata_end = CDATA_END.search(text, cdata.end()) if cdata else None
    closing = ending.search(text, cdata_end.end() if cdata_end else start)
    end = closing.start() if closing else len(text)
    context.spend_search(end - start)
    arguments.open = closing is None
    if cdata and cdata_end and not text[cdata_end.end() : end].strip():
        value = join_cdata(text[cdata.end() : cdata_end.start()])
    else:
        value = text[start:end].removeprefix(_outer_space(style.opens, -1) if style.opens.strip() else "")
        value = value.removesuffix(_outer_space(style.closes, 0))
    arguments.values[key] = value
    arguments.untyped.discard(key)
    if style.encoding == "text":
        arguments.untyped.add(key)
    arguments.end = closing.end() if closing else len(text)
    return True


def _read_literal(
    text: str, key: str, start: int, ending: re.Pattern[str], arguments: _Arguments, context: ParseContext
) -> bool:
    if not context.may_try(1):
        return False
    reader = LenientReader(text, start)
    try:
        arguments.values[key] = reader.read_value(ending)
    except Unreadable:
        context.spend_effort(reader.at - start)
        return False
    arguments.repairs |= reader.repairs - _NORMAL
    closing = ending.match(text, reader.at)
    arguments.open = reader.open
    arguments.end = closing.end() if closing else reader.at
    return True


def _outer_space(literal: str, side: int) -> str:
    """Return the white space at the end (-1) or at the start (0) of a literal, which belongs to the format."""
    return literal[len(literal.rstrip()) :] if side else literal[: len(literal) - len(literal.lstrip())]


def _ends_inside(text: str, at: int, closer: str) -> bool:
    """Whether the text ends before or inside a closer."""
    if len(text) - at > 2 * len(closer) + 64:
        return False
    rest = "".join(text[at:].split())
    return "".join(closer.split()).startswith(rest)
