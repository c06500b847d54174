"""Encodes a `ModelCall` as the request body for an OpenAI-compatible backend: the client's JSON with additions."""

from __future__ import annotations

from forge_proxy.core.chat import ModelCall, ToolSpec
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.simplify_schema import simplify_schema
from forge_proxy.core.stream import SIGNED_REASONING
from forge_proxy.wire.backends.openai.gbnf import write_call_grammar
from forge_proxy.wire.backends.openai.reasoning import read_think
from forge_proxy.wire.backends.openai.roles import adapt_roles, filter_reasoning
from forge_proxy.wire.backends.openai.tools_in_prompt import embed_tools, render_tools
from forge_proxy.wire.message_repair import repair_messages

_CONTINUE = "Go on."
SAMPLING = ("temperature", "top_p", "top_k")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")
"""Fields that limit the completion tokens."""
_NAMES_ELSEWHERE = {"repeat_penalty": "repetition_penalty"}


def encode_call(call: ModelCall) -> dict[str, Json]:
    """Return the request body. The client's values remain the same objects, except repaired messages and fields that
    the backend's dialect requires to change.
    """
    request, dialect = call.request, call.dialect
    body = dict(request.body)
    if call.model.replacement is not None:
        body["model"] = call.model.replacement
    if call.stream != request.stream:
        body["stream"] = call.stream
        body.pop("stream_options", None)
    if call.usage and call.stream:  # guarded responses report the usage of all attempts
        options = body.get("stream_options")
        body["stream_options"] = {**(options if is_object(options) else {}), "include_usage": True}
    _adapt_tools(body, call)
    _add_defaults(body, call)
    if dialect.llama_cpp and request.stream and call.stream:
        body.setdefault("return_progress", True)
    if dialect.choice_in_words and is_object(choice := body.get("tool_choice")) and choice.get("type") != "custom":
        body["tool_choice"] = request.tool_choice.mode
    if call.required_tools:
        body |= _require_call(call)
        if dialect.tools == "prompt":  # without tools, some servers reject any tool_choice
            body.pop("tool_choice", None)
    if "messages" in body:
        messages = prepare_messages(call, dialect)
        body["messages"] = [_without_signed(message) for message in messages] if request.is_converted else messages
    if call.room is not None:
        _limit_completion(body, call.room)
    if not dialect.sampling:
        for key in SAMPLING:
            body.pop(key, None)
    if not dialect.forced_choice and body.get("tool_choice") != "none":
        body.pop("tool_choice", None)
    return body


def _adapt_tools(body: dict[str, Json], call: ModelCall) -> None:
    """Remove the tools that the prompt describes instead, else add the respond tool and simplify the schemas."""
    if call.dialect.tools == "prompt":
        for key in _TOOL_FIELDS:
            body.pop(key, None)
    elif call.respond is not None:
        body["tools"] = [*_as_list(body.get("tools")), _encode_tool(call.respond)]
    if call.dialect.plain_schemas and is_list(tools := body.get("tools")):
        body["tools"] = [_simplify_tool(tool) for tool in tools]


def _add_defaults(body: dict[str, Json], call: ModelCall) -> None:
    """Set the configured defaults for fields that the client did not set."""
    dialect = call.dialect
    for name, value in (*call.model.sampling.items(), *dialect.defaults.items()):
        known = name if dialect.llama_cpp else _NAMES_ELSEWHERE.get(name, name)
        if body.get(known) is None:
            body[known] = value
    if dialect.thinks is not None and read_think(body) is None:
        kwargs = body.get("chat_template_kwargs")
        body["chat_template_kwargs"] = {**(kwargs if is_object(kwargs) else {}), "enable_thinking": dialect.thinks}


def prepare_messages(call: ModelCall, dialect: Dialect) -> list[Json]:
    """Return the messages of `conversation`, with roles that `dialect` accepts."""
    messages = conversation(call)
    natural = dialect.developer and dialect.system == "anywhere" and not dialect.alternating
    return messages if natural else adapt_roles(messages, dialect)


def conversation(call: ModelCall) -> list[Json]:
    """Return the messages of a call and its added ones: repaired, with reasoning by the dialect's policy, with the tool
    descriptions if tools are in the prompt, and with a last user message if the server does not support prefill.
    """
    request, dialect = call.request, call.dialect
    messages = repair_messages(_as_list(request.body.get("messages")))
    messages = [*filter_reasoning(messages, dialect.reasoning), *(message.to_api_dict() for message in call.added)]
    last = messages[-1] if messages else None
    if not dialect.prefill and is_object(last) and last.get("role") == "assistant" and not last.get("tool_calls"):
        messages.append({"role": "user", "content": _CONTINUE})
    if dialect.tools != "prompt":
        return messages
    # With `none`, omitting the tools is the only way to prevent a call.
    tools = _as_list(request.body.get("tools")) if request.body.get("tool_choice") != "none" else []
    return embed_tools(messages, render_tools(tools, call.respond, simple=dialect.plain_schemas))


def _require_call(call: ModelCall) -> dict[str, Json]:
    """Return the fields that limit a server to a call of one of the required tools.

    With the constraints `grammar` and `schema` the call is the text of the response. The tools stay in the request, so
    that the prompt prefix stays cached; `none` disables the server's own grammar for calls.
    """
    is_required = call.request.tool_choice.mode == "required"
    match call.constraint:
        case "none":
            return {}
        case "tool_choice":
            return {} if is_required else {"tool_choice": "required"}
        case "grammar" | "schema":
            pass
    grammar = write_call_grammar(call.grammar_tool) if call.constraint == "grammar" and call.grammar_tool else None
    fields: dict[str, Json] = {"tool_choice": "none"}
    if grammar is not None:
        fields |= {"grammar": grammar, "response_format": {"type": "text"}}
    else:
        schema: Json = {"name": "tool_call", "strict": True, "schema": call_schema(call.required_tools)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if call.dialect.llama_cpp and is_required:  # otherwise the call may be in the reasoning before the JSON
        fields["reasoning_format"] = "none"
    return fields


def call_schema(tools: tuple[ToolSpec, ...]) -> Json:
    """Return the JSON Schema of a call of one of these tools."""
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


def _limit_completion(body: dict[str, Json], room: int) -> None:
    """Reduce limits that exceed `room` (tokens). 0 removes them: the backend generates until the window is full."""
    for key in LIMITS:
        limit = body.get(key)
        if not isinstance(limit, int | float) or limit <= room:
            continue
        if room:
            body[key] = room
        else:
            del body[key]


def _simplify_tool(tool: Json) -> Json:
    function = tool.get("function") if is_object(tool) else None
    if not is_object(tool) or not is_object(function):
        return tool
    schema = function.get("parameters")
    # `strict` requests the grammar that failed; a null description is rejected if text is expected.
    kept = {key: value for key, value in function.items() if key != "strict" and value is not None}
    return {**tool, "function": {**kept, "parameters": simplify_schema(schema if is_object(schema) else True)}}


def _without_signed(message: Json) -> Json:
    """Return the message without reasoning that only Anthropic's API can read."""
    if not is_object(message) or SIGNED_REASONING not in message:
        return message
    return {key: value for key, value in message.items() if key != SIGNED_REASONING}


def _as_list(value: Json) -> list[Json]:
    return value if is_list(value) else []


def _encode_tool(tool: ToolSpec) -> Json:
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}
