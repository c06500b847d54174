"""Encodes a `ModelCall` as the body of a request to `/api/chat`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.backends.ollama.messages import encode_messages
from forge_proxy.wire.backends.ollama.options import encode_format, encode_options, select_native_fields
from forge_proxy.wire.backends.ollama.tools import encode_spec, encode_tools
from forge_proxy.wire.backends.openai.reasoning import Think
from forge_proxy.wire.backends.openai.request import call_schema, prepare_messages


@dataclass(frozen=True, slots=True)
class OllamaRequestOptions:
    """The configured options of each request. None means the server's default."""

    num_ctx: int | None = None
    """The window in tokens. Ollama reloads a model to change it."""
    keep_alive: str | int | None = None
    """How long the model stays loaded after a response, if the client does not set it."""


def encode_call(call: ModelCall, settings: OllamaRequestOptions, think: Think | None) -> dict[str, Json]:
    """Return the request body, always for a stream. Raises `InvalidRequest` for unsupported content."""
    request = call.request
    # Without `truncate` and `shift`, Ollama silently drops the beginning of a prompt that exceeds the window.
    body: dict[str, Json] = {"model": call.model.served, "stream": True, "truncate": False, "shift": False}
    if settings.keep_alive is not None:
        body["keep_alive"] = settings.keep_alive
    body |= select_native_fields(request.body)
    # Ollama's templates ignore messages with the role `developer`.
    body["messages"] = encode_messages(prepare_messages(call, replace(call.dialect, developer=False)))
    if tools := _tools(call):
        body["tools"] = tools
    constrains = call.required_tools and call.constraint == "schema"
    form = call_schema(call.required_tools) if constrains else encode_format(request.body)
    if form is not None:
        body["format"] = form
    if think is not None:
        body["think"] = think
    options = encode_options(request.body, call.model.sampling, call.room)
    if settings.num_ctx is not None:
        options["num_ctx"] = settings.num_ctx
    if options:
        body["options"] = options
    return body


def _tools(call: ModelCall) -> list[Json]:
    # Ollama has no tool_choice: with `none`, omitting the tools is the only way to prevent calls.
    if call.dialect.tools == "prompt":  # they are described in the messages
        return []
    offered = None if call.request.tool_choice.mode == "none" else call.request.body.get("tools")
    tools = encode_tools(offered, simple=call.dialect.plain_schemas)
    return tools if call.respond is None else [*tools, encode_spec(call.respond)]


def encode_loading(model: str, settings: OllamaRequestOptions) -> dict[str, Json]:
    """Return the request that loads a model, with the options of later requests: others would reload it."""
    body: dict[str, Json] = {"model": model, "messages": [], "shift": False}
    if settings.keep_alive is not None:
        body["keep_alive"] = settings.keep_alive
    if settings.num_ctx is not None:
        body["options"] = {"num_ctx": settings.num_ctx}
    return body


def count_prompt_bytes(body: JsonObject) -> int:
    """Return the number of text bytes in the messages of an encoded call, a lower bound of the prompt."""
    messages = body.get("messages")
    contents = [message.get("content") for message in messages if is_object(message)] if is_list(messages) else []
    return sum(len(text.encode("utf-8", "replace")) for text in contents if isinstance(text, str))
