"""What makes a JSON object a call: the spellings of name and arguments that models and servers use."""

from __future__ import annotations

from forge_proxy.core.chat import ToolCall
from forge_proxy.core.jsontypes import is_object, read_object
from forge_proxy.core.rescue.json_reader import Members, Value, read_members, read_objects

_NAME = ("name", "tool", "tool_name", "function_name", "function")
_ARGUMENTS = ("arguments", "args", "parameters", "input", "params")


def call_of(members: Members) -> ToolCall | None:
    """The call that an object is; None if it is none. A call without arguments has `{}`."""
    inner = members.values.get("function")
    if inner is not None and is_object(inner.value):  # the API's own envelope: {"type": "function", "function": {…}}
        wrapped = read_members(inner.text, 0)
        return call_of(wrapped) if wrapped else None
    name = members.first(_NAME)
    if name is None or not isinstance(name.value, str) or not name.value:
        return None
    arguments = arguments_of(members.first(_ARGUMENTS))
    identity = members.values.get("id")
    said_id = identity.value if identity and isinstance(identity.value, str) else ""
    return ToolCall(name.value, arguments, said_id) if arguments is not None else None


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


def has_arguments(members: Members) -> bool:
    """Whether the object speaks of arguments at all: one that does not, and stands bare, may be anything."""
    return members.first(_ARGUMENTS) is not None or "function" in members.values


def calls_of(objects: list[Members]) -> list[ToolCall] | None:
    """The calls that all of these objects are; None as soon as one is none."""
    calls: list[ToolCall] = []
    for members in objects:
        listed = members.values.get("tool_calls")
        if listed is not None:
            inner = read_objects(listed.text, 0)
            found = calls_of(inner[0]) if inner else None
        else:
            call = call_of(members)
            found = [call] if call else None
        if found is None:
            return None
        calls += found
    return calls
