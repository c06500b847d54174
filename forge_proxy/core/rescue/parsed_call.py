"""What makes an object a call: the spellings of name and arguments that models and servers use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.jsontypes import JsonObject, is_list, is_object, read_object, write
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.rescue.context.parse_context import ParseContext
from forge_proxy.core.rescue.readers.strict_json import JsonMembers, JsonValue, read_members, read_objects

MAX_CALLS = 512
"""Calls in one text: a model that writes more has lost its way, and to read and check them all would take long."""
NAME_KEYS = (
    "name", "tool", "tool_name", "function_name", "function", "toolName", "functionName", "tool_call_name", "action",
)  # fmt: skip
ARGUMENT_KEYS = (
    "arguments", "args", "parameters", "input", "params", "tool_args", "tool_input", "tool_arguments",
    "tool_parameters", "function_arguments", "action_input", "kwargs",
)  # fmt: skip
_ENVELOPES = ("function", "function_call", "tool_call", "tool")
_MAX_ENVELOPES = 4
_LISTS = ("tool_calls", "function_calls", "calls")
_BESIDE = frozenset({*NAME_KEYS, "id", "type", "index", "call_id", "tool_call_id"})
"""What may stand in a call beside its arguments and says nothing that the tool would need."""
_TOLD = frozenset({"thought", "thoughts", "thinking", "reasoning", "explanation", "content", "role", "description"})
"""What a model tells beside a call and nobody needs: anything else that is left out is reported."""
_REPORTS = frozenset({"result", "results", "output", "response", "error"})
"""What stands beside the arguments only once a call was made."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call as it was read."""

    call: ToolCall
    repairs: frozenset[str] = frozenset()
    """What had to be mended in it, in words such as `commas`."""
    untyped: frozenset[str] = frozenset()
    """The parameters that were given as raw text: only the schema can tell what they are."""
    positional: int = 0
    """How many arguments were given without a name; they stand first, under the keys `0`, `1`, …."""
    open: bool = False
    """Whether the text ended before the call did."""
    words: str = ""
    """What was said beside the call, where it stands in the same object."""


def may_be_call(value: JsonObject, look: ParseContext) -> bool:
    """Whether an object may be a call of an offered tool, or hold one."""
    if len(value) == 1 or any(key in value for key in (*_ENVELOPES, *_LISTS)):
        return True
    return any(isinstance(said, str) and look.name(said) is not None for said in map(value.get, NAME_KEYS))


def calls_of(members: JsonMembers, look: ParseContext, depth: int = 0) -> list[ParsedCall] | None:
    """The calls that an object is; None if it is none. A call without arguments has `{}`."""
    if depth > _MAX_ENVELOPES:
        return None
    listed = members.first(_LISTS)
    if listed is not None and is_list(listed.value) and listed.value:
        calls = _calls_in_list(listed, members, look, depth)
        words = members.values.get("content")
        if calls and words and isinstance(words.value, str):
            calls[0] = replace(calls[0], words=words.value)
        return calls
    for key in _ENVELOPES:
        inner = members.values.get(key)
        if inner is not None and is_object(inner.value):  # {"type": "function", "function": {…}}
            wrapped = read_members(inner.text, 0, look)
            one = _plain_call(wrapped, members, look) if wrapped else None
            return [one] if one else None
    one = _plain_call(members, members, look) or _call_by_name(members, look)
    return [one] if one else None


def _calls_in_list(listed: JsonValue, envelope: JsonMembers, look: ParseContext, depth: int) -> list[ParsedCall] | None:
    items = read_objects(listed.text, 0, look)
    found: list[ParsedCall] = []
    for members in items[0] if items else ():
        said = calls_of(members, look, depth + 1)
        if not said:
            return None
        found += (ParsedCall(one.call, one.repairs | envelope.repairs, open=envelope.open) for one in said)
    return found or None


def _plain_call(members: JsonMembers, envelope: JsonMembers, look: ParseContext) -> ParsedCall | None:
    """The call with name and arguments in `members`, and its id in `envelope`."""
    name = members.first(NAME_KEYS)
    if name is None or not isinstance(name.value, str) or not name.value or _is_no_call(members):
        return None
    said = members.first(ARGUMENT_KEYS)
    arguments = arguments_of(said, look)
    identity = envelope.first(("id", "tool_call_id", "call_id"))
    said_id = identity.value if identity and isinstance(identity.value, str) and len(identity.value) > 2 else ""
    repairs = members.repairs | envelope.repairs
    if said and members.values.keys() - _BESIDE - _TOLD - set(ARGUMENT_KEYS):
        repairs |= {"other keys"}
    if arguments is not None:
        if arguments[1]:
            repairs |= {"encoded twice"} | arguments[2]
        call = ToolCall(name.value, arguments[0], said_id)
        return ParsedCall(call, repairs, open=members.open or envelope.open)
    if "action_input" in members.values and said is not None and isinstance(said.value, str):
        call = ToolCall(name.value, write({"0": said.value}), said_id)
        return ParsedCall(call, repairs, positional=1, open=members.open)
    return None


def _call_by_name(members: JsonMembers, look: ParseContext) -> ParsedCall | None:
    """`{"get_weather": {"city": "Oslo"}}`: the one key is the name of an offered tool."""
    if len(members.values) != 1:
        return None
    ((key, value),) = members.values.items()
    name = look.name(key)
    if name is None or not is_object(value.value):
        return None
    return ParsedCall(ToolCall(name, value.text), members.repairs, open=members.open)


def _is_no_call(members: JsonMembers) -> bool:
    """Whether a named object is the definition of a tool, or holds what would be lost: values under unknown keys and
    no arguments.
    """
    if members.first(ARGUMENT_KEYS) is None:
        return not members.values.keys() <= _BESIDE
    if members.values.keys() & _REPORTS:
        return True
    schema = members.values.get("parameters")
    if schema is None or not is_object(schema.value):
        return False
    described = is_object(schema.value.get("properties")) and "type" in schema.value
    return described or "description" in members.values


def arguments_of(value: JsonValue | None, look: ParseContext) -> tuple[str, bool, frozenset[str]] | None:
    """Arguments as the text of an object: as written, or out of the string they were written into. None if neither.

    Also tells whether they had to be taken out of a string that held broken JSON, and what was mended there.
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
        members = read_members(inner, 0, look)
        if members and members.end == len(inner) and members.repairs and not members.open:
            return members.text, True, members.repairs
    return None
