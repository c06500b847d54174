"""Reads calls without markup, and finds the end of calls that cannot be parsed."""

from __future__ import annotations

import re

from forge_proxy.core.jsontypes import is_object, read_value, skip_space, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.context.skip_unparsed import skip_brackets, skip_code
from forge_proxy.core.rescue.grammar.markup import BETWEEN, INVOKE, NAME, skip_closers
from forge_proxy.core.rescue.readers import pythonic
from forge_proxy.core.rescue.readers.call_bodies import (
    ATTRIBUTE,
    NAMED_TAGS,
    Body,
    read_body,
    read_code,
    read_named,
    skip_junk,
    skip_surplus_brackets,
)
from forge_proxy.core.rescue.readers.json_calls import ParsedCall, may_be_call, read_json_calls
from forge_proxy.core.rescue.readers.strict_json import read_objects
from forge_proxy.core.rescue.readers.tags import read_parameters

_CLOSING_TAG = re.compile(r"</(?:[\w.:|｜ -]{1,24})?(?:function|invoke|tool_calls?|function_calls?|tool_use)>")
_SHORT_FORM = re.compile(r"(?P<name>[\w.-]{1,128})/(?P<key>[^\W\d][\w.-]{0,64})>(?P<value>[^<>]*)")
_REACT = re.compile(r"Action:[ \t]*(?P<name>[^\n`]{1,128}?)[ \t]*\n+[ \t]*Action Input:[ \t]*")
_TRAILER = re.compile(r"\s*(?:Observation:|/TOOL_CALL)\s*\Z")
"""Text that models add after such a call at the end of a response."""
_REACT_END = re.compile(r"\n[ \t]*(?:Observation|Thought|Action|Final Answer):")


def starts_call(text: str, at: int, context: ParseContext) -> bool:
    """Whether a call starts after an opener that ends at `at`, rather than the opener being only mentioned."""
    at = skip_space(text, at)
    if text.startswith(("{", "["), at) or INVOKE.match(text, at) or NAMED_TAGS.match(text, at):
        return True
    name = NAME.match(text, at)
    if not name:
        return False
    if ATTRIBUTE.match(text, name.end()):
        return True
    between = BETWEEN.match(text, name.end())
    end = between.end() if between else name.end()
    if end == len(text):  # the response ends with the name or inside it
        return context.may_begin_name(name["name"].removeprefix("functions."))
    if text.startswith("<", end):
        return not text.startswith("</", end)
    return text.startswith("{", end) or text.startswith("(", name.end())


def skip_broken_call(text: str, at: int) -> int:
    """Return where to continue after an opener that ends at `at` and whose call cannot be parsed."""
    start = skip_junk(text, at)
    if text.startswith(("{", "["), start) and not text.startswith(("[T", "[/"), start):
        return skip_code(text, start) if pythonic.CALL.match(text, start + 1) else skip_brackets(text, start)
    if INVOKE.match(text, start) or NAMED_TAGS.match(text, start):
        return _past_tags(text, start)
    return skip_named_arguments(text, start) or at


def skip_named_arguments(text: str, at: int) -> int:
    """Return the position after unparsable arguments that follow a name at `at`; 0 if there are none."""
    name = NAME.match(text, at)
    if not name:
        return 0
    between = BETWEEN.match(text, name.end())
    start = between.end() if between else name.end()
    if text.startswith("(", name.end()):
        return skip_code(text, name.end())
    if text.startswith(("{", "["), start) and not text.startswith(("[T", "[/"), start):
        return skip_brackets(text, start)
    if text.startswith(("<arg_key>", "<parameter"), start) or ATTRIBUTE.match(text, name.end()):
        return _past_tags(text, start)
    return 0


def _past_tags(text: str, at: int) -> int:
    end = _CLOSING_TAG.search(text, at)
    return end.end() if end else len(text)


def read_loose_form(text: str, at: int, context: ParseContext) -> Body | None:
    """Read the calls at `at` that have no markup; all must be of offered tools."""
    body = read_json(text, at, context)
    if body is None and text.startswith("[", at):
        body = read_code(text, at, context)
    return body and _require_offered(body, context)


def skip_other_object(text: str, at: int, context: ParseContext) -> int:
    """Return the position after a strict JSON object at `at` that is not a call of an offered tool; 0 if it may be."""
    read = read_value(text, at)
    if read is None or not is_object(read[0]):
        return 0
    return 0 if may_be_call(read[0], context) else read[1]


def read_first_form(text: str, at: int, context: ParseContext) -> Body | None:
    """Read a call that starts with a tool name or with words that announce a call."""
    body = _read_first(text, at, context)
    trailer = _TRAILER.match(text, body[1]) if body else None
    return (body[0], trailer.end(), body[2]) if body and trailer else body


def _read_first(text: str, at: int, context: ParseContext) -> Body | None:
    react = _REACT.match(text, at)
    if react:
        return _read_react(text, react, context)
    for word in ("Call:", "call:", "Action:", "TOOL_CALL"):
        if text.startswith(word, at):
            body = (
                read_body(text, at + len(word), context)
                if word != "Call:"
                else read_code(text, skip_space(text, at + 5), context)
            )
            return body and _require_offered(body, context)
    short = _SHORT_FORM.match(text, at)
    if short and context.resolve_name(short["name"]):
        value = short["value"].strip()
        parsed = ParsedCall(ToolCall(short["name"], write({short["key"]: value})), untyped=frozenset({short["key"]}))
        return [parsed], skip_closers(text, short.end()), "short"
    if text.startswith("all\n", at):
        return None
    body = read_code(text, at, context)
    if body is None:
        name = NAME.match(text, at)
        written_name = name["name"].removesuffix("/") if name else ""
        body = (
            read_named(text, name.end(), context, written_name) if name and context.resolve_name(written_name) else None
        )
        if body and not body[0][0].call.args():
            return None
    return body and _require_offered(body, context)


def read_tool_tag(text: str, tag: re.Match[str], context: ParseContext) -> Body | None:
    """Read a tag with the name of a tool and its arguments in child tags."""
    parameters = read_parameters(text, tag.end(), context, children=True)
    closing = re.compile(rf"\s*</{re.escape(tag['name'])}\s*>").match(text, parameters.end)
    if not closing or (not parameters.values and text[tag.end() : closing.start()].strip()):
        return None
    call = ToolCall(tag["name"], write(parameters.values))
    return [ParsedCall(call, untyped=frozenset(parameters.untyped))], skip_closers(text, closing.end()), "tool-tag"


def read_json(text: str, at: int, context: ParseContext) -> Body | None:
    """Read an object, or a list of objects, with the keys of a call."""
    objects = read_objects(text, at, context)
    if objects is None:
        return None
    calls: list[ParsedCall] = []
    for members in objects[0]:
        object_calls = read_json_calls(members, context)
        if object_calls is None:
            return None
        calls += object_calls
    return (calls, skip_surplus_brackets(text, objects[1]), "json") if calls else None


def skip_first_form(text: str, at: int, context: ParseContext) -> tuple[int, bool]:
    """Return the end of an unparsable call of an offered tool that starts a line at `at` (0 if there is none), and
    whether it was announced and therefore intended as a call.
    """
    if (react := _REACT.match(text, at)) and context.resolve_name(react["name"]):
        end = _REACT_END.search(text, react.end())
        return (end.start() if end else len(text)), True
    is_announced = text.startswith(("Call:", "call:"), at)
    start = skip_space(text, at + len("call:")) if is_announced else at
    name = NAME.match(text, start)
    code_call = pythonic.CALL.match(text, start)
    if not any(match and context.resolve_name(match["name"]) for match in (name, code_call)):
        return 0, False
    return skip_named_arguments(text, start), is_announced


def _read_react(text: str, react: re.Match[str], context: ParseContext) -> Body | None:
    name = context.resolve_name(react["name"])
    if name is None:
        return None
    body = read_named(text, react.end(), context, name)
    if body or text.startswith(("{", "["), react.end()):
        return body
    end = _REACT_END.search(text, react.end())
    stop = end.start() if end else len(text)
    parsed = ParsedCall(ToolCall(name, write({"0": text[react.end() : stop].strip()})), positional=1)
    return [parsed], stop, "react"


def _require_offered(body: Body, context: ParseContext) -> Body | None:
    """Return the body, or None if one of its calls is not of an offered tool: then it is plain text."""
    return body if all(context.resolve_name(parsed.call.tool) for parsed in body[0]) else None
