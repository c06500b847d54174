"""Decodes requests to `/api/chat` and `/api/generate` to a `ChatRequest`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.chat_completions.request import decode_request
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.ollama.messages import build_user_content, convert_messages, read_images
from forge_proxy.wire.clients.ollama.options import (
    convert_format,
    convert_options,
    read_ollama_think,
    to_openai_fields,
)
from forge_proxy.wire.clients.ollama.response import (
    CHAT,
    GENERATE,
    OllamaStreamEncoder,
    ResponseForm,
    encode_loading,
    encode_whole,
)

Nanoseconds: TypeAlias = Callable[[], int]
_CONVERTED = frozenset({
    "model", "messages", "stream", "options", "format", "think", "keep_alive", "prompt", "system", "images", "raw",
    "template", "context", "suffix", "truncate", "shift",
})  # fmt: skip
_ONLY_OLLAMA = {
    "raw": "a prompt without the chat template: use /v1/completions",
    "suffix": "use /infill, or suffix of /v1/completions",
    "template": "the model server applies the model's own template",
    "context": "send the conversation as messages to /api/chat",
}
"""Fields of `/api/generate` that change the prompt in ways that a chat request has no form for, and what to do."""


def _stand_still() -> int:
    return 0


@fast_dataclass
class DecodedOllamaRequest:
    """A decoded request and the encoder of its response (`api.surface.DecodedRequest`)."""

    chat: ChatRequest
    form: ResponseForm
    source: JsonObject
    """The client's JSON, for requests that an Ollama answers itself."""
    action: Literal["answer", "load", "unload"] = "answer"
    """Whether a response is requested, or only that the model is loaded or unloaded."""
    unsupported: tuple[str, ...] = ()
    """The fields of `/api/generate` that only an Ollama supports, by sending it the request unchanged."""
    now: Nanoseconds = _stand_still
    """The time since an arbitrary moment."""
    began: int = 0

    def with_clock(self, now: Nanoseconds) -> DecodedOllamaRequest:
        """Return the request with a clock that measures the durations that the response reports."""
        return replace(self, now=now, began=now())

    def adapt_to_other_backend(self) -> DecodedOllamaRequest:
        """Return the request for a model server other than Ollama.

        Raises `InvalidRequest` for what no such server can do.
        """
        if self.unsupported:
            name = self.unsupported[0]
            raise InvalidRequest(name, f"not supported with this model server; {_ONLY_OLLAMA[name]}")
        body, dropped = to_openai_fields(self.chat.body)
        return replace(self, chat=replace(self.chat, body=body, dropped=(*self.chat.dropped, *dropped)))

    def build_stream_encoder(self, request_id: str, created: int) -> OllamaStreamEncoder:
        """Return the encoder of the streamed response."""
        return OllamaStreamEncoder(self.form, self.chat.model, created, self.now, self.began)

    def encode_response(self, response: ResponseCollector, request_id: str, created: int) -> bytes:
        """Encode a whole response."""
        return encode_whole(response.completion(), self.form, self.chat.model, created, self.now() - self.began)

    def encode_loaded(self, created: int) -> bytes:
        """Encode the response to a request that only loads or unloads the model."""
        return encode_loading(self.form, self.chat.model, created, self.action)


def decode_chat(body: JsonObject) -> DecodedOllamaRequest:
    """Decode the parsed body of `/api/chat`. Raises `InvalidRequest` with the path of the field."""
    messages = convert_messages(body)
    if not messages:
        return _decode_load_request(body, CHAT)
    return _decode(body, messages, CHAT)


def decode_generate(body: JsonObject) -> DecodedOllamaRequest:
    """Decode the parsed body of `/api/generate`. Raises `InvalidRequest` with the path of the field."""
    prompt, images = fields.read_optional_text(body, "prompt") or "", read_images(body)
    unsupported = tuple(name for name in _ONLY_OLLAMA if body.get(name))
    if not prompt and not images and not unsupported:
        return _decode_load_request(body, GENERATE)
    messages: list[Json] = [{"role": "user", "content": build_user_content(prompt, images)}]
    if system := fields.read_optional_text(body, "system"):
        messages.insert(0, {"role": "system", "content": system})
    return replace(_decode(body, messages, GENERATE), unsupported=unsupported)


def _decode(body: JsonObject, messages: list[Json], form: ResponseForm) -> DecodedOllamaRequest:
    stream = fields.read_flag(body, "stream", "stream", default=True)
    converted: dict[str, Json] = {
        **{key: value for key, value in body.items() if key not in _CONVERTED and value is not None},
        "model": body.get("model"),
        "messages": messages,
        "stream": stream,
        **convert_options(body),
        **convert_format(body),
        **read_ollama_think(body),
    }
    if is_list(tools := body.get("tools")):
        converted["tools"] = [_tool(tool) for tool in tools]
    if stream:
        converted["stream_options"] = {"include_usage": True}
    if (keep_alive := body.get("keep_alive")) is not None:
        converted["keep_alive"] = keep_alive
    decoded = decode_request(converted)
    dropped = tuple(
        f"{name}: budget.overflow decides about a prompt over the window"
        for name in ("truncate", "shift")
        if body.get(name)
    )
    chat = replace(decoded, is_converted=True, is_retried_here=True, include_usage=stream, dropped=dropped)
    return DecodedOllamaRequest(chat, form, body)


def _decode_load_request(body: JsonObject, form: ResponseForm) -> DecodedOllamaRequest:
    """Return the request to load a model, or to unload it: one without a prompt."""
    stream = fields.read_flag(body, "stream", "stream", default=True)
    chat = ChatRequest(body, model=fields.read_optional_text(body, "model"), stream=stream, is_converted=True)
    keep_alive = body.get("keep_alive")
    is_unload = keep_alive == 0 or (isinstance(keep_alive, str) and keep_alive.rstrip("smh") == "0")
    return DecodedOllamaRequest(chat, form, body, "unload" if is_unload else "load")


def _tool(tool: Json) -> Json:
    """Return a tool with its type, which Ollama does not require."""
    return {"type": "function", **tool} if is_object(tool) and not tool.get("type") else tool
