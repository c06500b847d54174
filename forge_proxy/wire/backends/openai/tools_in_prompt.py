"""Tools in the prompt, for servers or chat templates without tool support: described as text, called as JSON text.

Messages keep their order and are encoded the same in each turn. The tools come first, so that the prefix cache matches.
Earlier calls appear in the history in the format that the model is description_text to use, as examples.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema

_HEAD = "You can call tools. Each line is one of them, with the JSON Schema of its arguments:"
_FORM = """To call a tool, answer with nothing but its call, as JSON on a line of its own, or several such lines:
{"name": "name of the tool", "arguments": {"name of an argument": "its value"}}
What it returns comes in the next message, behind [Result of name of the tool]."""
_SYSTEM = ("system", "developer")


def render_tools(tools: Sequence[Json], respond: ToolSpec | None, *, simple: bool) -> str:
    """Return the description of the tools, the respond tool last; empty without tools. `simple` simplifies schemas."""
    functions = [function for tool in tools if is_object(tool) and is_object(function := tool.get("function"))]
    lines = [_line(function.get("name"), function.get("description"), function.get("parameters"), simple=simple)
             for function in functions]  # fmt: skip
    if respond is not None:
        lines.append(_line(respond.name, respond.description, respond.parameters, simple=False))
    return "\n\n".join((_HEAD, "\n".join(lines), _FORM)) if lines else ""


def embed_tools(messages: Sequence[Json], description_text: str) -> list[Json]:
    """Return the messages with the tool description first, and calls and results as text.

    The results of one response become one message.
    """
    out: list[Json] = []
    names: dict[str, str] = {}
    after_result = False
    for message in messages:
        if not is_object(message):
            out.append(message)
            continue
        is_result = message.get("role") == "tool"
        written = _result(message, names) if is_result else _encode_calls(message, names)
        if is_result and after_result and is_object(last := out[-1]):
            out[-1] = {**last, "content": join_contents(last.get("content"), written.get("content"))}
        else:
            out.append(written)
        after_result = is_result
    return _prepend(description_text, out) if description_text else out


def join_contents(first: Json, second: Json) -> Json:
    """Join two contents. Texts are separated by an empty line."""
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _line(name: Json, description: Json, schema: Json, *, simple: bool) -> str:
    parameters = simplify_schema(schema if is_object(schema) else True) if simple else schema
    about: dict[str, Json] = {"name": name, "description": description, "parameters": parameters}
    return orjson.dumps({key: value for key, value in about.items() if value not in (None, "", True)}).decode()


def _prepend(description_text: str, messages: list[Json]) -> list[Json]:
    first = messages[0] if messages else None
    if is_object(first) and first.get("role") in _SYSTEM:
        return [{**first, "content": join_contents(description_text, first.get("content"))}, *messages[1:]]
    return [{"role": "system", "content": description_text}, *messages]


def _encode_calls(message: JsonObject, names: dict[str, str]) -> JsonObject:
    """Return the message with its calls as text after its content."""
    calls = message.get("tool_calls")
    if not is_list(calls) or not calls:
        return message
    lines: list[str] = []
    for call in calls:
        function = call.get("function") if is_object(call) else None
        if not is_object(call) or not is_object(function):
            continue
        name, arguments, identity = function.get("name"), function.get("arguments"), call.get("id")
        if isinstance(identity, str) and isinstance(name, str):
            names[identity] = name
        # The model's own text of the arguments: it may still be in the prefix cache.
        lines.append(f'{{"name": {orjson.dumps(name).decode()}, "arguments": {arguments}}}')
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": join_contents(message.get("content"), "\n".join(lines))}


def _result(message: JsonObject, names: dict[str, str]) -> JsonObject:
    identity = message.get("tool_call_id")
    name = names.get(identity) if isinstance(identity, str) else None
    head = f"[Result of {name}]" if name else "[Result]"
    content = message.get("content")
    text: Json = f"{head}\n{content}" if isinstance(content, str) else [*_parts(head), *_parts(content)]
    return {"role": "user", "content": text}


def _parts(content: Json) -> list[Json]:
    if is_list(content):
        return content
    return [{"type": "text", "text": content}] if content else []
