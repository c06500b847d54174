"""A `ModelCall` to the JSON that an OpenAI-compatible backend is sent: the caller's own, with what we add to it."""

from __future__ import annotations

from forge_proxy.core.chat import ModelCall, ToolSpec
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema
from forge_proxy.wire.backends.openai.reasoning import think_of
from forge_proxy.wire.backends.openai.roles import in_dialect, with_thoughts
from forge_proxy.wire.backends.openai.tools_in_prompt import tools_text, with_tools
from forge_proxy.wire.message_repair import healed

_GO_ON = "Go on."
SAMPLING = ("temperature", "top_p", "top_k")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")
"""Fields with a limit of completion tokens."""
_NAMES_ELSEWHERE = {"repeat_penalty": "repetition_penalty"}


def encode_call(call: ModelCall) -> dict[str, Json]:
    """The request body. What the caller sent stays the same objects, but for a history that needs healing and for what
    the backend's dialect asks for.
    """
    request, dialect = call.request, call.dialect
    body = dict(request.body)
    if call.model.replacement is not None:
        body["model"] = call.model.replacement
    if call.stream != request.stream:
        body["stream"] = call.stream
        body.pop("stream_options", None)
    if call.usage and call.stream:  # a guarded answer accounts for each attempt
        options = body.get("stream_options")
        body["stream_options"] = {**(options if is_object(options) else {}), "include_usage": True}
    prompted = dialect.tools == "prompt"
    if prompted:
        for key in _TOOL_FIELDS:
            body.pop(key, None)
    elif call.respond is not None:
        body["tools"] = [*_as_list(body.get("tools")), _encode_tool(call.respond)]
    if dialect.plain_schemas and is_list(tools := body.get("tools")):
        body["tools"] = [_plain(tool) for tool in tools]
    _add_defaults(body, call)
    if dialect.llama_cpp and request.stream and call.stream:
        body.setdefault("return_progress", True)
    if dialect.choice_in_words and is_object(said := body.get("tool_choice")) and said.get("type") != "custom":
        body["tool_choice"] = request.tool_choice.mode
    if call.required_tools:
        body |= _held_to_a_call(call.required_tools, dialect)
        if prompted:  # without tools some servers refuse any choice of them
            del body["tool_choice"]
    if "messages" in body:
        body["messages"] = messages_of(call, dialect)
    if call.room is not None:
        _keep_within(body, call.room)
    if not dialect.sampling:
        for key in SAMPLING:
            body.pop(key, None)
    if not dialect.forced_choice and body.get("tool_choice") != "none":
        body.pop("tool_choice", None)
    return body


def _add_defaults(body: dict[str, Json], call: ModelCall) -> None:
    """What our settings say of a request, field by field where the caller says nothing."""
    dialect = call.dialect
    for name, value in (*call.model.sampling.items(), *dialect.defaults.items()):
        known = name if dialect.llama_cpp else _NAMES_ELSEWHERE.get(name, name)
        if body.get(known) is None:
            body[known] = value
    if dialect.thinks is not None and think_of(body) is None:
        said = body.get("chat_template_kwargs")
        body["chat_template_kwargs"] = {**(said if is_object(said) else {}), "enable_thinking": dialect.thinks}


def messages_of(call: ModelCall, dialect: Dialect) -> list[Json]:
    """The messages of `conversation`, in the roles that `dialect` knows."""
    messages = conversation(call)
    natural = dialect.developer and dialect.system == "anywhere" and not dialect.alternating
    return messages if natural else in_dialect(messages, dialect)


def conversation(call: ModelCall) -> list[Json]:
    """The messages of a call, ours included: healed, with the thoughts that shall be passed on, with the tools where
    these are told in the prompt, and ending with a user where that is wanted.
    """
    request, dialect = call.request, call.dialect
    messages = healed(_as_list(request.body.get("messages")))
    messages = [*with_thoughts(messages, dialect.reasoning), *(message.to_api_dict() for message in call.added)]
    last = messages[-1] if messages else None
    if not dialect.prefill and is_object(last) and last.get("role") == "assistant" and not last.get("tool_calls"):
        messages.append({"role": "user", "content": _GO_ON})
    if dialect.tools != "prompt":
        return messages
    # With `none` no call shall come, and there is no other way to forbid it.
    tools = _as_list(request.body.get("tools")) if request.body.get("tool_choice") != "none" else []
    return with_tools(messages, tools_text(tools, call.respond, simple=dialect.plain_schemas))


def _held_to_a_call(tools: tuple[ToolSpec, ...], dialect: Dialect) -> dict[str, Json]:
    """What makes a server write a call of one of these tools as the text of its answer.

    The tools stay offered, so the prompt up to here is the one it has read before; `none` keeps the server's own
    grammar for calls out of the way.
    """
    schema: Json = {"name": "tool_call", "strict": True, "schema": call_schema(tools)}
    fields: dict[str, Json] = {
        "tool_choice": "none",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    if dialect.llama_cpp:  # else a thought may come before the JSON, and be what holds the call
        fields["reasoning_format"] = "none"
    return fields


def call_schema(tools: tuple[ToolSpec, ...]) -> Json:
    """The JSON Schema of a call of one of these tools, written as text."""
    calls: list[Json] = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": simplify_schema(tool.parameters)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return {"anyOf": calls}


def _keep_within(body: dict[str, Json], room: int) -> None:
    """Lower the limits that are larger than the room; 0 takes them out, and the backend fills what there is."""
    for key in LIMITS:
        said = body.get(key)
        if not isinstance(said, int | float) or said <= room:
            continue
        if room:
            body[key] = room
        else:
            del body[key]


def _plain(tool: Json) -> Json:
    function = tool.get("function") if is_object(tool) else None
    if not is_object(tool) or not is_object(function):
        return tool
    schema = function.get("parameters")
    # `strict` asks for the very grammar that failed, and an empty description is refused where text is expected.
    kept = {key: value for key, value in function.items() if key != "strict" and value is not None}
    return {**tool, "function": {**kept, "parameters": simplify_schema(schema if is_object(schema) else True)}}


def _as_list(value: Json) -> list[Json]:
    return value if is_list(value) else []


def _encode_tool(tool: ToolSpec) -> Json:
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
