"""Reads the body after the opener of a call: objects, code, tags, or the name of a tool and its arguments.

One grammar serves all markup: the text, not the opener, determines the shape of the body.
"""

from __future__ import annotations

import re
from dataclasses import replace

from forge_proxy.core.jsontypes import read_value, skip_space, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.markup import (
    BETWEEN,
    CALL_ID,
    CLOSE,
    CLOSER,
    INVOKE,
    NAME,
    NOISE,
    OPEN,
    OPENER,
    skip_closers,
    strip_tokens,
)
from forge_proxy.core.rescue.readers import pythonic
from forge_proxy.core.rescue.readers.json_calls import ParsedCall, read_json_arguments, read_json_calls
from forge_proxy.core.rescue.readers.sections import read_section_calls
from forge_proxy.core.rescue.readers.strict_json import JsonValue, read_members, read_objects
from forge_proxy.core.rescue.readers.tags import Parameters, read_parameters

Body = tuple[list[ParsedCall], int, str]
"""Calls, the position after them and their closers, and the name of their shape."""

_JUNK = re.compile(r"(?:\s|```\w{0,12}(?=\s)|json(?=\s*[\[{])|function(?=\s*<[|｜]tool[_▁]sep))*")
NAMED_TAGS = re.compile(
    rf"\s*{OPEN}(?:name|tool_name|function_name)>\s*(?P<name>[^<>\n]{{1,128}}?)\s*{CLOSE}(?:name|tool_name|function_name)>\s*"
    rf"(?:{OPEN}(?:arguments|parameters|args|params|input|tool_input)>)?"
)
_NAMED_END = re.compile(rf"\s*{CLOSE}(?:arguments|parameters|args|params|input|tool_input)\s*>")
ATTRIBUTE = re.compile(r"\s+(?P<key>[^\W\d][\w.-]{0,127})\s?=\s?(?=[\"'])")
_TRUNCATED_TAG = re.compile(r"\s*(?:</?[^<>]{0,60}|<[^/<>][^<>]{0,60}>[^<>]{0,200})?")
"""The end of a text that was truncated before or inside the tag of another argument."""
_SURPLUS_BRACKETS = re.compile(r"\s{0,8}[}\]]{1,8}(?=\s*(?:\Z|[<`]|\[/?\Z|\[/))")
_FENCE_END = re.compile(r"\s{0,8}```")
_MAX_JUNK = 8
"""Maximum consecutive openers and tokens before a call; no model writes more."""
_NUMBERED = re.compile(r":\d{1,4}$")


def read_body(text: str, at: int, context: ParseContext) -> Body | None:
    """Read the calls after an opener that ends at `at`; None if there are none or they cannot be parsed."""
    start = skip_junk(text, at)
    body = _read_shape(text, start, context)
    if body and "```" in text[at:start] and (fence := _FENCE_END.match(text, body[1])):
        return body[0], skip_closers(text, fence.end()), body[2]
    return body


def _read_shape(text: str, at: int, context: ParseContext) -> Body | None:
    if text.startswith("{", at):
        return _read_objects(text, at, context)
    if text.startswith("[", at):
        return _read_objects(text, at, context) or read_code(text, at, context)
    if invoke := INVOKE.match(text, at):
        return read_invoke(text, invoke, context)
    if sections := read_section_calls(text, at):
        return sections[0], skip_closers(text, sections[1]), "sections"
    if named := NAMED_TAGS.match(text, at):
        return _read_named_tags(text, named, context)
    return read_code(text, at, context) or read_named(text, at, context)


def read_invoke(text: str, opening: re.Match[str], context: ParseContext) -> Body | None:
    """Read the call in a tag that names its tool."""
    name = strip_tokens(opening["quoted"] or opening["name"] or opening["bare"])
    if not name:
        return None
    if opening.group().endswith("/>"):
        return [ParsedCall(ToolCall(name.rstrip("/ "), "{}"))], skip_closers(text, opening.end()), "tags"
    at = skip_space(text, opening.end())
    if text.startswith("{", at):
        return _read_object_arguments(text, at, name, context, "function-tag")
    if text.startswith('"', at) and (body := _read_string_arguments(text, at, name, context)):
        return body
    call = "function" if "function" in opening.group()[:40].split("=")[0] else "invoke"
    parameters = read_parameters(text, opening.end(), context, children=True, call=call)
    if not parameters.open and not CLOSER.match(text, parameters.end) and text[parameters.end :].strip():
        return None
    return _make_tags_body(name, parameters, text)


def read_named(text: str, at: int, context: ParseContext, name: str = "") -> Body | None:
    """Read the call whose name starts at `at`, or, if `name` is given, whose arguments start there."""
    identity = ""
    if not name:
        match = NAME.match(text, at)
        if not match:
            return None
        name = strip_tokens(match["name"])
        at = match.end()
        if context.resolve_name(name) is None and _NUMBERED.search(name):
            name = _NUMBERED.sub("", name)
    between = BETWEEN.match(text, at)
    start = between.end() if between else at
    if between and (call_id := CALL_ID.search(between.group())):
        identity = call_id[1]
    body = _read_arguments(text, start, at, name, context)
    if body and between and "```" in between.group() and (fence := _FENCE_END.match(text, body[1])):
        body = (body[0], skip_closers(text, fence.end()), body[2])
    if body and identity:
        body[0][0] = replace(body[0][0], call=replace(body[0][0].call, id=identity))
    return body


def _read_arguments(text: str, at: int, after_name: int, name: str, context: ParseContext) -> Body | None:
    if text.startswith("{", at):
        return _read_object_arguments(text, at, name, context, "named")
    if text.startswith('"', at):
        return _read_string_arguments(text, at, name, context)
    parameters = read_parameters(text, at, context)
    if parameters.values:
        return _make_tags_body(name, parameters, text)
    attributes = _read_attributes(text, after_name, name)
    if attributes:
        return attributes
    closed = next((position for position in (at, after_name) if CLOSER.match(text, position)), None)
    if closed is None or context.resolve_name(name) is None:
        return None
    return [ParsedCall(ToolCall(name, "{}"))], skip_closers(text, closed), "named"


def _read_objects(text: str, at: int, context: ParseContext) -> Body | None:
    """Read objects with the keys of a call, consecutive or in a list."""
    calls: list[ParsedCall] = []
    has_doubled_braces = text.startswith("{{", at)  # braces doubled as in a format string
    at += has_doubled_braces
    while True:
        read = read_objects(text, at, context)
        calls_found = (
            [parsed for members in read[0] for parsed in read_json_calls(members, context) or ()] if read else []
        )
        if read is None or not calls_found:
            return (calls, skip_closers(text, skip_surplus_brackets(text, at)), "json") if calls else None
        calls += calls_found
        at = read[1]
        following = at
        while following < len(text) and text[following] in " \t\r\n,;":
            following += 1
        if has_doubled_braces and text.startswith("}", at):
            at = following = at + 1
        if not text.startswith(("{", "["), following) or text.startswith(("[/", "[T"), following):
            return calls, skip_closers(text, skip_surplus_brackets(text, at)), "json"
        at = following


def skip_surplus_brackets(text: str, at: int) -> int:
    """Return the position after unmatched closing brackets at the end of a call."""
    surplus = _SURPLUS_BRACKETS.match(text, at)
    return surplus.end() if surplus else at


def read_code(text: str, at: int, context: ParseContext) -> Body | None:
    """Read the calls that begin at `at` and are written as Python code; None if there are none."""
    read = pythonic.read_calls(text, at, context)
    return (read[0], skip_closers(text, read[1]), "pythonic") if read else None


def _read_named_tags(text: str, named: re.Match[str], context: ParseContext) -> Body | None:
    at = skip_space(text, named.end())
    if text.startswith("{", at):
        read = _read_object_arguments(text, at, named["name"], context, "tags")
        return (read[0], skip_closers(text, read[1]), "tags") if read else None
    parameters = read_parameters(text, at, context, children=True)
    end = _NAMED_END.match(text, parameters.end)
    if not end and not parameters.values:
        return None
    stop = end.end() if end else parameters.end
    return _make_tags_body(named["name"], parameters, text)[0], skip_closers(text, stop), "tags"


def _read_object_arguments(text: str, at: int, name: str, context: ParseContext, shape: str) -> Body | None:
    members = read_members(text, at, context)
    if members is None:
        return None
    parsed = ParsedCall(ToolCall(name, members.text), members.repairs, open=members.open)
    return [parsed], skip_closers(text, members.end), shape


def _read_string_arguments(text: str, at: int, name: str, context: ParseContext) -> Body | None:
    """Read arguments that are encoded twice, as a JSON string of an object."""
    value = read_value(text, at)
    arguments = read_json_arguments(JsonValue(value[0]), context) if value and isinstance(value[0], str) else None
    if value is None or arguments is None:
        return None
    return [ParsedCall(ToolCall(name, arguments[0]), arguments[2])], skip_closers(text, value[1]), "named"


def _read_attributes(text: str, at: int, name: str) -> Body | None:
    """Read `name key="value" other="value" />`."""
    values: dict[str, str] = {}
    while attribute := ATTRIBUTE.match(text, at):
        quote = text[attribute.end()]
        end = re.compile(rf"{quote}(?=\s+[^\W\d][\w.-]{{0,127}}\s?=\s?[\"']|\s*(?:/?>|<|\Z))").search(
            text, attribute.end() + 1
        )
        if not end:
            return None
        values[attribute["key"]] = text[attribute.end() + 1 : end.start()]
        at = end.end()
    if not values:
        return None
    slash = re.compile(r"\s*/?>").match(text, at)
    call = ToolCall(name, write(dict(values)))
    return [ParsedCall(call, untyped=frozenset(values))], skip_closers(text, slash.end() if slash else at), "attributes"


def _make_tags_body(name: str, parameters: Parameters, text: str) -> Body:
    """Return the call with these arguments, up to its closer or, if that is missing, to the end of the text."""
    ends = skip_closers(text, parameters.end)
    # If nothing closes the call, further arguments may be missing.
    is_unclosed = parameters.open or (ends == parameters.end and _TRUNCATED_TAG.fullmatch(text, ends) is not None)
    repairs = frozenset({*parameters.repairs, "closing tags"} if is_unclosed else parameters.repairs)
    # Any missing closer may be missing because the response was truncated.
    is_open = parameters.doubtful or "closing tags" in repairs
    parsed = ParsedCall(ToolCall(name, write(parameters.values)), repairs, frozenset(parameters.untyped), open=is_open)
    return [parsed], len(text) if is_unclosed else ends, "tags"


def skip_junk(text: str, at: int) -> int:
    """Return the position after further openers and tokens without meaning."""
    for _ in range(_MAX_JUNK):
        junk = _JUNK.match(text, at)
        at = junk.end() if junk else at
        more = OPENER.match(text, at) or (NOISE.match(text, at) if not CLOSER.match(text, at) else None)
        if not more:
            break
        at = more.end()
    return at
