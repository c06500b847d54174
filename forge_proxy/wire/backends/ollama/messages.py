"""Encodes messages in Ollama's format: content is text, images are a separate field, arguments are objects, and results
name their tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.message_repair import to_arguments_object

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)


def encode_messages(messages: Sequence[Json]) -> list[Json]:
    """Encode repaired messages. Raises `InvalidRequest` for unsupported content."""
    names: dict[str, str] = {}
    out: list[Json] = []
    for place, message in enumerate(messages):
        if is_object(message):
            out.append(_message(message, f"messages[{place}].content", names))
    return out


def _message(message: JsonObject, at: str, names: dict[str, str]) -> Json:
    """Encode a message. `names` maps the ids of earlier calls to tools; the calls of this message are added."""
    text, images = _content(message.get("content"), at)
    out: dict[str, Json] = {"role": message.get("role"), "content": text}
    if images:
        out["images"] = images
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        out["thinking"] = reasoning
    calls = message.get("tool_calls")
    if is_list(calls) and calls:
        out["tool_calls"] = [_call(call, names) for call in calls if is_object(call)]
    identity = message.get("tool_call_id")
    if isinstance(identity, str):
        out["tool_call_id"] = identity
    if message.get("role") == "tool":
        name = names.get(identity) if isinstance(identity, str) else None
        out["tool_name"] = name or message.get("name") or ""
    return out


def _call(call: JsonObject, names: dict[str, str]) -> Json:
    function, identity = call.get("function"), call.get("id")
    fields: JsonObject = function if is_object(function) else {}
    name, arguments = fields.get("name"), fields.get("arguments")
    if isinstance(identity, str) and isinstance(name, str):
        names[identity] = name
    parsed = to_arguments_object(arguments) if isinstance(arguments, str) else arguments
    return {"id": identity, "function": {"name": name, "arguments": parsed if is_object(parsed) else {}}}


def _content(content: Json, at: str) -> tuple[str, list[Json]]:
    """Return the text and the images of a message's content."""
    if not is_list(content):
        return content if isinstance(content, str) else "", []
    texts: list[str] = []
    images: list[Json] = []
    for number, part in enumerate(content):
        match part:
            case (
                str(text)
                | {"type": "text" | "input_text", "text": str(text)}
                | {"type": "refusal", "refusal": str(text)}
            ):
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                images.append(_image(url, f"{at}[{number}].image_url"))
            case _:
                raise InvalidRequest(f"{at}[{number}]", "Ollama takes parts of the types text and image_url only")
    return "\n".join(texts), images


def _image(url: str, at: str) -> str:
    """Return the base64 data of an image. Ollama does not fetch URLs."""
    if head := _DATA_URL.match(url):
        return url[head.end() :]
    raise InvalidRequest(at, "Ollama fetches no images: send the image itself, as data:image/png;base64,…")
