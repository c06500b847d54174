"""Recognizes JSON objects as tool calls, by the key names that models and servers use for name and arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.jsontypes import JsonObject, is_list, is_object, read_object, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.grammar.json_keys import (
    ARGUMENT_KEYS,
    COMMENTARY_KEYS,
    ENVELOPE_KEYS,
    LIST_KEYS,
    METADATA_KEYS,
    NAME_KEYS,
    RESULT_KEYS,
)
from forge_proxy.core.rescue.readers.strict_json import JsonMembers, JsonValue, read_members, read_objects

MAX_CALLS = 512
"""Maximum calls in one text: more indicate a model in a loop, and parsing and validating them all would be slow."""
_MAX_ENVELOPES = 4


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A tool call as parsed from the text."""

    call: ToolCall
    repairs: frozenset[str] = frozenset()
    """The repairs it needed, such as `commas`."""
    untyped: frozenset[str] = frozenset()
    """Parameters that arrived as raw text; their type comes from the schema."""
    positional: int = 0
    """Number of arguments without a name; they come first, under the keys `0`, `1`, …."""
    open: bool = False
    """Whether the text ended before the call was complete."""
    text: str = ""
    """Text for the user, if the same object contains it beside the call."""


def may_be_call(value: JsonObject, context: ParseContext) -> bool:
    """Whether an object may be a call of an offered tool or contain one."""
    if len(value) == 1 or any(key in value for key in (*ENVELOPE_KEYS, *LIST_KEYS)):
        return True
    return any(isinstance(name, str) and context.resolve_name(name) is not None for name in map(value.get, NAME_KEYS))


def read_json_calls(members: JsonMembers, context: ParseContext, depth: int = 0) -> list[ParsedCall] | None:
    """Return the calls that an object represents; None if it is not a call. Missing arguments become `{}`."""
    if depth > _MAX_ENVELOPES:
        return None
    call_list = members.first(LIST_KEYS)
    if call_list is not None and is_list(call_list.value) and call_list.value:
        calls = _calls_in_list(call_list, members, context, depth)
        words = members.values.get("content")
        if calls and words and isinstance(words.value, str):
            calls[0] = replace(calls[0], text=words.value)
        return calls
    for key in ENVELOPE_KEYS:
        inner = members.values.get(key)
        if inner is not None and is_object(inner.value):  # {"type": "function", "function": {…}}
            wrapped = read_members(inner.text, 0, context)
            parsed = _plain_call(wrapped, members, context) if wrapped else None
            return [parsed] if parsed else None
    parsed = _plain_call(members, members, context) or _call_by_name(members, context)
    return [parsed] if parsed else None


def _calls_in_list(
    call_list: JsonValue, envelope: JsonMembers, context: ParseContext, depth: int
) -> list[ParsedCall] | None:
    items = read_objects(call_list.text, 0, context)
    calls: list[ParsedCall] = []
    for members in items[0] if items else ():
        inner = read_json_calls(members, context, depth + 1)
        if not inner:
            return None
        calls += (ParsedCall(parsed.call, parsed.repairs | envelope.repairs, open=envelope.open) for parsed in inner)
    return calls or None


def _plain_call(members: JsonMembers, envelope: JsonMembers, context: ParseContext) -> ParsedCall | None:
    """Return the call with its name and arguments in `members` and its id in `envelope`."""
    name = members.first(NAME_KEYS)
    if name is None or not isinstance(name.value, str) or not name.value or _is_no_call(members):
        return None
    arguments_value = members.first(ARGUMENT_KEYS)
    arguments = read_json_arguments(arguments_value, context)
    identity = envelope.first(("id", "tool_call_id", "call_id"))
    call_id = identity.value if identity and isinstance(identity.value, str) and len(identity.value) > 2 else ""
    repairs = members.repairs | envelope.repairs
    if arguments_value and members.values.keys() - METADATA_KEYS - COMMENTARY_KEYS - set(ARGUMENT_KEYS):
        repairs |= {"other keys"}
    if arguments is not None:
        if arguments[1]:
            repairs |= {"encoded twice"} | arguments[2]
        call = ToolCall(name.value, arguments[0], call_id)
        return ParsedCall(call, repairs, open=members.open or envelope.open)
    if "action_input" in members.values and arguments_value is not None and isinstance(arguments_value.value, str):
        call = ToolCall(name.value, write({"0": arguments_value.value}), call_id)
        return ParsedCall(call, repairs, positional=1, open=members.open)
    return None


def _call_by_name(members: JsonMembers, context: ParseContext) -> ParsedCall | None:
    """Return the call in `{"get_weather": {"city": "Oslo"}}`, whose only key is the name of an offered tool."""
    if len(members.values) != 1:
        return None
    ((key, value),) = members.values.items()
    name = context.resolve_name(key)
    if name is None or not is_object(value.value):
        return None
    return ParsedCall(ToolCall(name, value.text), members.repairs, open=members.open)


def _is_no_call(members: JsonMembers) -> bool:
    """Whether an object with a name is not a call: a tool definition, the record of an executed call, or an object
    without arguments whose other keys would be lost.
    """
    if members.first(ARGUMENT_KEYS) is None:
        return not members.values.keys() <= METADATA_KEYS
    if members.values.keys() & RESULT_KEYS:
        return True
    schema = members.values.get("parameters")
    if schema is None or not is_object(schema.value):
        return False
    has_properties = is_object(schema.value.get("properties")) and "type" in schema.value
    return has_properties or "description" in members.values


def read_json_arguments(value: JsonValue | None, context: ParseContext) -> tuple[str, bool, frozenset[str]] | None:
    """Return the arguments as the JSON text of an object, taken from the object or from a JSON-encoded string.

    Returns None if they are neither. The second item is true if the string contained broken JSON; the third lists the
    repairs in it.
    """
    if value is None or value.value is None:
        return "{}", False, frozenset()
    if is_object(value.value):
        return value.text, False, frozenset()
    if isinstance(value.value, str):
        inner = value.value.strip()
        if not inner:
            return "{}", False, frozenset()
        if read_object(inner) is not None:
            return value.value, False, frozenset()
        members = read_members(inner, 0, context)
        if members and members.end == len(inner) and members.repairs and not members.open:
            return members.text, True, members.repairs
    return None
