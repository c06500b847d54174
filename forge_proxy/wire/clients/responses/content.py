"""Converts the content of items: parts of the Responses API to parts of a chat completion."""

from __future__ import annotations

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields

_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_EXPECTED = "expected input_text, input_image, input_file, input_audio, output_text or refusal"


def decode_content(content: Json, at: str) -> Json:
    """Return the content of a message or of a tool's result: a string, or a list of chat parts.

    A single text part becomes a string, which every chat template can render. Raises `InvalidRequest`.
    """
    if isinstance(content, str):
        return content
    parts = [_decode_part(part, f"{at}[{index}]") for index, part in enumerate(_parts(content, at))]
    if len(parts) == 1 and parts[0].get("type") == "text":
        return parts[0]["text"]
    return [*parts]


def decode_text(content: Json, at: str) -> str:
    """Return content that can only be text: what the model has said. Raises `InvalidRequest`."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for index, part in enumerate(_parts(content, at)):
        decoded = _decode_part(part, f"{at}[{index}]")
        text = decoded.get("text")
        if not isinstance(text, str):
            raise InvalidRequest(f"{at}[{index}].type", "expected output_text or refusal")
        texts.append(text)
    return "".join(texts)


def _parts(content: Json, at: str) -> list[JsonObject]:
    if not is_list(content):
        fields.reject(at, "text or a list of parts", content)
    return fields.check_objects(content, at)


def _decode_part(part: JsonObject, at: str) -> JsonObject:
    match part.get("type"):
        case str(kind) if kind in _TEXT_TYPES:
            return {"type": "text", "text": _text(part, "text", f"{at}.text")}
        case "refusal":
            return {"type": "text", "text": _text(part, "refusal", f"{at}.refusal")}
        case "input_image":
            return _image(part, at)
        case "input_file":
            return _file(part, at)
        case "input_audio":
            return {"type": "input_audio", "input_audio": fields.read_object(part, "input_audio", at)}
        case _:
            raise InvalidRequest(f"{at}.type", _EXPECTED)


def _text(part: JsonObject, key: str, at: str) -> str:
    value = part.get(key)
    if not isinstance(value, str):
        fields.reject(at, "a string", value)
    return value


def _image(part: JsonObject, at: str) -> JsonObject:
    url = part.get("image_url")
    if is_object(url):  # the format of chat completions, which some clients mix in
        url = url.get("url")
    if not isinstance(url, str) or not url:
        raise InvalidRequest(f"{at}.image_url", "expected an http or data URL; files are not stored here")
    detail = part.get("detail")
    image: dict[str, Json] = {"url": url}
    if isinstance(detail, str) and detail != "auto":
        image["detail"] = detail
    return {"type": "image_url", "image_url": image}


def _file(part: JsonObject, at: str) -> JsonObject:
    data = part.get("file_data")
    if not isinstance(data, str) or not data:
        raise InvalidRequest(f"{at}.file_data", "expected the file as a data URL; files are not stored or fetched here")
    name = part.get("filename")
    file: dict[str, Json] = {"file_data": data}
    if isinstance(name, str):
        file["filename"] = name
    return {"type": "file", "file": file}
