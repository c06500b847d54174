"""Decodes a request of the Responses API to a `ChatRequest`."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.stored_responses import PreviousResponseNotFound
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.responses.input_items import InputDecoder, add_item_tools, list_input_items
from forge_proxy.wire.clients.responses.options import decode_options
from forge_proxy.wire.clients.responses.response_object import encode_repeated, find_conversation_id
from forge_proxy.wire.clients.responses.tool_choice import decode_tool_choice
from forge_proxy.wire.clients.responses.tools import OfferedTools

STORED = "stored items"
"""The path of items that the client did not send but refers to."""
_MAX_CONVERSATION_ID = 64


@fast_dataclass
class ConvertedRequest:
    """A decoded request: its chat completion, the client's body, and the tools by which calls are converted back."""

    body: JsonObject
    chat: ChatRequest
    tools: OfferedTools
    repeated: bytes
    """The fields that the response repeats, as JSON."""
    is_stored: bool = False
    """Whether the response is to be stored."""


def decode_request(
    body: JsonObject, stored: Sequence[JsonObject] | None = None, *, is_stored: bool = False
) -> ConvertedRequest:
    """Decode a parsed body. `stored` are the items of the conversation before `input`, None if nothing is stored here.

    Raises `InvalidRequest` with the path of the field.
    """
    previous, conversation = read_links(body)
    if stored is None:
        reject_links(previous, conversation)
    stored = stored or ()
    items = list_input_items(body.get("input"))
    tools = OfferedTools()
    tools.add(fields.read_objects(body, "tools"), "tools")
    add_item_tools(tools, stored, STORED)
    add_item_tools(tools, items, "input")
    decoder = InputDecoder(tools)
    if instructions := fields.read_optional_text(body, "instructions"):
        decoder.conversation.add_message("system", instructions)
    decoder.add(stored, STORED)
    decoder.add(items, "input")
    messages = decoder.conversation.messages()
    if not messages:
        raise InvalidRequest("input", "expected at least one message")
    dropped = [*tools.dropped, *decoder.dropped]
    if body.get("store") is True and not is_stored:
        dropped.append("store: this daemon stores no responses")
    chat: dict[str, Json] = {"messages": [*messages], **decode_options(body, dropped)}
    choice, written = decode_tool_choice(body.get("tool_choice"), tools)
    if tools.tools:
        chat["tools"] = [{"type": "function", "function": tool.function} for tool in tools.tools]
    else:
        chat.pop("parallel_tool_calls", None)  # servers reject it without tools
    if written is not None:
        chat["tool_choice"] = written
    stream = fields.read_flag(body, "stream", "stream", default=False)
    if stream:
        chat["stream_options"] = {"include_usage": True}
    request = ChatRequest(
        body=chat,
        messages=tuple(messages),
        model=fields.read_optional_text(body, "model"),
        tools=tuple(tool.spec for tool in tools.tools),
        tool_choice=choice,
        parallel=fields.read_flag(body, "parallel_tool_calls", "parallel_tool_calls", default=True),
        stream=stream,
        include_usage=stream,
        limit=fields.read_count(body, "max_output_tokens", least=1),
        is_converted=True,
        is_assembled=True,
        dropped=tuple(dropped),
    )
    return ConvertedRequest(body, request, tools, encode_repeated(body), is_stored)


def read_links(body: JsonObject) -> tuple[str | None, str | None]:
    """Return the ids of the response and of the conversation that a request continues. Raises `InvalidRequest`."""
    previous = fields.read_optional_text(body, "previous_response_id")
    conversation = find_conversation_id(body)
    if conversation is None and body.get("conversation") is not None:
        raise InvalidRequest("conversation", "expected an id or {id}")
    if conversation is not None and not 0 < len(conversation) <= _MAX_CONVERSATION_ID:
        raise InvalidRequest("conversation", f"expected at most {_MAX_CONVERSATION_ID} characters")
    if previous is not None and conversation is not None:
        raise InvalidRequest("conversation", "cannot be combined with previous_response_id")
    return previous, conversation


def reject_links(previous: str | None, conversation: str | None) -> None:
    """Raise `InvalidRequest` if a request continues anything although no response is stored."""
    if previous is not None:
        raise PreviousResponseNotFound(previous)
    if conversation is not None:
        raise InvalidRequest("conversation", "this daemon stores no responses; send the conversation as input")


def wants_storing(body: JsonObject, *, default: bool) -> bool:
    """Whether a request's response is to be stored: if it says so, or uses what is stored. Raises `InvalidRequest`."""
    uses_stored = body.get("previous_response_id") is not None or body.get("conversation") is not None
    return fields.read_flag(body, "store", "store", default=default or uses_stored)
