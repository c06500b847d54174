"""A `ModelCall` to the body of a request to `/api/chat`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.backends.ollama.messages import encode_messages
from forge_proxy.wire.backends.ollama.options import encode_format, encode_options, own_fields
from forge_proxy.wire.backends.ollama.tools import encode_spec, encode_tools
from forge_proxy.wire.backends.openai.reasoning import Think
from forge_proxy.wire.backends.openai.request import call_schema, messages_of


@dataclass(frozen=True, slots=True)
class OllamaRequestOptions:
    """What our settings say of each request. None leaves it to the server."""

    num_ctx: int | None = None
    """The window, in tokens. A model that is loaded with another one is loaded again."""
    keep_alive: str | int | None = None
    """How long the model stays loaded after an answer, where the caller does not say."""


def encode_call(call: ModelCall, terms: OllamaRequestOptions, think: Think | None) -> dict[str, Json]:
    """The request body, always for a stream. Raises `InvalidRequest` for content that Ollama cannot take."""
    request = call.request
    # What does not fit is refused and never cut: without these two, Ollama drops the beginning of what was said.
    body: dict[str, Json] = {"model": call.model.served, "stream": True, "truncate": False, "shift": False}
    if terms.keep_alive is not None:
        body["keep_alive"] = terms.keep_alive
    body |= own_fields(request.body)
    # No role `developer` in any of its templates: they pass such messages over.
    body["messages"] = encode_messages(messages_of(call, replace(call.dialect, developer=False)))
    if tools := _tools(call):
        body["tools"] = tools
    held = call_schema(call.required_tools) if call.required_tools else encode_format(request.body)
    if held is not None:
        body["format"] = held
    if think is not None:
        body["think"] = think
    options = encode_options(request.body, call.room)
    if terms.num_ctx is not None:
        options["num_ctx"] = terms.num_ctx
    if options:
        body["options"] = options
    return body


def _tools(call: ModelCall) -> list[Json]:
    # Ollama knows no tool_choice: to offer them all the same would be to ask for calls that nobody wants.
    if call.dialect.tools == "prompt":  # they are told in the messages
        return []
    offered = None if call.request.tool_choice.mode == "none" else call.request.body.get("tools")
    tools = encode_tools(offered, plainly=call.dialect.plain_schemas)
    return tools if call.respond is None else [*tools, encode_spec(call.respond)]


def encode_loading(model: str, terms: OllamaRequestOptions) -> dict[str, Json]:
    """The request that loads a model, under the terms that later requests have: with others it is loaded again."""
    body: dict[str, Json] = {"model": model, "messages": [], "shift": False}
    if terms.keep_alive is not None:
        body["keep_alive"] = terms.keep_alive
    if terms.num_ctx is not None:
        body["options"] = {"num_ctx": terms.num_ctx}
    return body


def prompt_bytes(body: JsonObject) -> int:
    """Bytes of text that the prompt of an encoded call holds at least: what was said, without images."""
    messages = body.get("messages")
    said = [message.get("content") for message in messages if is_object(message)] if is_list(messages) else []
    return sum(len(text.encode("utf-8", "replace")) for text in said if isinstance(text, str))
