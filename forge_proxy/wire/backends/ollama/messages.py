"""Messages as Ollama wants them: content that is text, images beside it, arguments that are objects, results that name
their tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.message_repair import readable_arguments

_DATA_URL = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)


def encode_messages(messages: Sequence[Json]) -> list[Json]:
    """The messages of a healed history, in their order. Raises `InvalidRequest` for content that it cannot take."""
    names: dict[str, str] = {}
    out: list[Json] = []
    for place, message in enumerate(messages):
        if is_object(message):
            out.append(_message(message, f"messages[{place}].content", names))
    return out


def _message(message: JsonObject, at: str, names: dict[str, str]) -> Json:
    """`names` are the tools of the calls so far, by id; those of this message are put there too."""
    text, images = _content(message.get("content"), at)
    out: dict[str, Json] = {"role": message.get("role"), "content": text}
    if images:
        out["images"] = images
    thought = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thought, str) and thought:
        out["thinking"] = thought
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
    said: JsonObject = function if is_object(function) else {}
    name, arguments = said.get("name"), said.get("arguments")
    if isinstance(identity, str) and isinstance(name, str):
        names[identity] = name
    read = readable_arguments(arguments) if isinstance(arguments, str) else arguments
    return {"id": identity, "function": {"name": name, "arguments": read if is_object(read) else {}}}


def _content(content: Json, at: str) -> tuple[str, list[Json]]:
    """The text and the images of a message's content."""
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
    """The base64 of an image. Ollama fetches nothing."""
    if head := _DATA_URL.match(url):
        return url[head.end() :]
    raise InvalidRequest(at, "Ollama fetches no images: send the image itself, as data:image/png;base64,…")
