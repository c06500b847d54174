"""What makes a JSON object a call: the spellings of name and arguments that models and servers use."""

from __future__ import annotations

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.jsontypes import is_object, read_object
from forge_proxy.core.rescue.json_reader import Members, Value, read_members, read_objects

_NAME = ("name", "tool", "tool_name", "function_name", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "params")
_NO_ARGUMENTS = frozenset({*_NAME, "id", "type", "index", "call_id", "tool_call_id"})
"""What may stand in a call beside its arguments and says nothing that the tool would need."""


def call_of(members: Members) -> ToolCall | None:
    """The call that an object is; None if it is none. A call without arguments has `{}`."""
    inner = members.values.get("function")
    if inner is not None and is_object(inner.value):  # the API's own envelope: {"type": "function", "function": {…}}
        wrapped = read_members(inner.text, 0)
        return _plain_call(wrapped, members) if wrapped else None
    return _plain_call(members, members)


def _plain_call(members: Members, envelope: Members) -> ToolCall | None:
    """The call with name and arguments in `members`, and its id in `envelope`."""
    name = members.first(_NAME)
    if name is None or not isinstance(name.value, str) or not name.value or _is_no_call(members):
        return None
    arguments = arguments_of(members.first(_ARGUMENTS))
    identity = envelope.values.get("id")
    said_id = identity.value if identity and isinstance(identity.value, str) else ""
    return ToolCall(name.value, arguments, said_id) if arguments is not None else None


def _is_no_call(members: Members) -> bool:
    """Whether a named object is the definition of a tool, or holds what would be lost: values under unknown keys and
    no arguments.
    """
    if members.first(_ARGUMENTS) is None:
        return not members.values.keys() <= _NO_ARGUMENTS
    return "description" in members.values and "parameters" in members.values


def arguments_of(value: Value | None) -> str | None:
    """Arguments as the text of an object: as written, or out of the string they were written into. None if neither."""
    if value is None or value.value is None:
        return "{}"
    if is_object(value.value):
        return value.text
    if isinstance(value.value, str):
        if not value.value.strip():
            return "{}"
        return value.value if read_object(value.value) is not None else None
    return None


def calls_of(objects: list[Members]) -> list[ToolCall] | None:
    """The calls that all of these objects are; None as soon as one is none."""
    calls: list[ToolCall] = []
    for members in objects:
        listed = _listed(members)
        found = [call for one in listed if (call := call_of(one))]
        if not found or len(found) < len(listed):
            return None
        calls += found
    return calls


def _listed(members: Members) -> list[Members]:
    """The objects under `tool_calls`, as in an answer of the API; without such a list the object itself."""
    listed = members.values.get("tool_calls")
    if listed is None:
        return [members]
    inner = read_objects(listed.text, 0)
    return inner[0] if inner else []
