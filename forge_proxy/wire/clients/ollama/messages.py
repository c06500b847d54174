"""Converts messages of Ollama's API to chat-completions messages.

Ollama's calls need no ids and their arguments are objects; a result names its tool instead of a call.
"""

from __future__ import annotations

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields

_IMAGE_TYPES = {"iVBOR": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp", "Qk": "bmp"}
"""The first base64 characters of image files, and the subtype of each format."""
_CONVERTED = frozenset({"role", "content", "images", "thinking", "tool_calls", "tool_call_id", "tool_name", "name"})


def convert_messages(body: JsonObject) -> list[Json]:
    """Return the messages of a request. Raises `InvalidRequest`."""
    ids = _CallIds()
    return [
        _convert(message, f"messages[{index}]", ids)
        for index, message in enumerate(fields.read_objects(body, "messages"))
    ]


def build_user_content(text: str, images: list[Json]) -> Json:
    """Return the content of a message: the text, or parts if there are images."""
    return [*([{"type": "text", "text": text}] if text else []), *images] if images else text


def read_images(body: JsonObject, within: str = "") -> list[Json]:
    """Return the base64 images of the message at `within`, or of a prompt, as parts. Raises `InvalidRequest`."""
    listed = body.get("images")
    if listed is None:
        return []
    at = f"{within}.images" if within else "images"
    if not is_list(listed):
        fields.reject(at, "a list of base64 strings", listed)
    return [_image(image, f"{at}[{index}]") for index, image in enumerate(listed)]


class _CallIds:
    """Assigns ids to calls by their position in the conversation, so that they are the same in each turn."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []
        """Ids and tools of the latest calls whose results have not come yet."""

    def begin_calls(self) -> None:
        """Record that the calls of another message follow."""
        self._open = []

    def add_call(self, call: JsonObject, name: str) -> str:
        """Record a call and return its id: the client's if there is one, else one of its position."""
        given = call.get("id")
        identity = given if isinstance(given, str) and given else f"call_{self._count}"
        self._count += 1
        self._open.append((identity, name))
        return identity

    def find_call(self, name: Json) -> str | None:
        """Return the id of the first call of this tool without a result, else of the first call without one."""
        found = next((one for one in self._open if one[1] == name), self._open[0] if self._open else None)
        if found is None:
            return None
        self._open.remove(found)
        return found[0]

    def close_call(self, identity: str) -> None:
        """Record that the result of this call has come."""
        self._open = [one for one in self._open if one[0] != identity]


def _convert(message: JsonObject, at: str, ids: _CallIds) -> Json:
    out: dict[str, Json] = {key: value for key, value in message.items() if key not in _CONVERTED}
    out["role"] = message.get("role")
    content, images = message.get("content"), read_images(message, at)
    if images and not isinstance(content, str | None):
        fields.reject(f"{at}.content", "text", content)
    out["content"] = build_user_content(content, images) if isinstance(content, str) else images or content
    if thinking := message.get("thinking"):
        if not isinstance(thinking, str):
            fields.reject(f"{at}.thinking", "a string", thinking)
        out["reasoning_content"] = thinking
    calls = fields.read_objects(message, "tool_calls", at)
    if calls:
        ids.begin_calls()
        out["tool_calls"] = [_call(call, f"{at}.tool_calls[{n}]", ids) for n, call in enumerate(calls)]
    elif out["content"] is None:
        out["content"] = ""
    if message.get("role") == "tool":
        _add_call_of_result(out, message, ids)
    elif "name" in message:
        out["name"] = message["name"]
    return out


def _add_call_of_result(out: dict[str, Json], message: JsonObject, ids: _CallIds) -> None:
    """Add the id of the call that a result belongs to, and the name of its tool."""
    name, identity = message.get("tool_name") or message.get("name"), message.get("tool_call_id")
    if isinstance(identity, str) and identity:
        ids.close_call(identity)
        out["tool_call_id"] = identity
    elif (found := ids.find_call(name)) is not None:
        out["tool_call_id"] = found
    if isinstance(name, str) and name:
        out["name"] = name


def _call(call: JsonObject, at: str, ids: _CallIds) -> Json:
    function = fields.read_object(call, "function", at)
    name, arguments = fields.read_text(function, "name", f"{at}.function"), function.get("arguments")
    if isinstance(arguments, str):  # OpenAI's form, from a history of another API
        text = arguments
    elif arguments is None or is_object(arguments):
        text = _dump(arguments or {}, f"{at}.function.arguments")
    else:
        fields.reject(f"{at}.function.arguments", "an object", arguments)
    return {"id": ids.add_call(call, name), "type": "function", "function": {"name": name, "arguments": text}}


def _dump(arguments: JsonObject, at: str) -> str:
    try:
        return orjson.dumps(arguments).decode()
    except TypeError as exc:
        raise InvalidRequest(at, "nested too deeply") from exc


def _image(image: Json, at: str) -> Json:
    if not isinstance(image, str) or not image:
        fields.reject(at, "an image in base64", image)
    if image.startswith("data:"):
        url = image
    else:
        subtype = next((kind for start, kind in _IMAGE_TYPES.items() if image.startswith(start)), "png")
        url = f"data:image/{subtype};base64,{image}"
    return {"type": "image_url", "image_url": {"url": url}}
