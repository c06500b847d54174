"""Converts Anthropic's content blocks to the parts of chat messages: text, `image_url` and `file`."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.messages.dropped import DroppedParts, cut_field_name

Part = JsonObject
_PDF_NAME = "document.pdf"
_SEND_DATA = "the daemon stores no files; send the content as base64"


def read_blocks(content: Json, at: str) -> list[JsonObject]:
    """Return content blocks; text is short for one text block. Raises `InvalidRequest`."""
    if isinstance(content, str):
        return [build_text_part(content)]
    if content is None:
        return []
    if not is_list(content):
        fields.reject(at, "text or a list of content blocks", content)
    blocks: list[JsonObject] = [block for block in content if is_object(block)]
    if len(blocks) < len(content):
        index = next(index for index, block in enumerate(content) if not is_object(block))
        fields.reject(f"{at}[{index}]", "a content block", content[index])
    return blocks


def build_text_part(text: str) -> Part:
    """Return a text part."""
    return {"type": "text", "text": text}


def to_content(parts: Sequence[Part]) -> Json:
    """Return the content of a message: text, or parts if there is an image or a file.

    Texts are joined by a line feed, as model servers do, so that a list and a string of the same text are equal.
    """
    if all(part["type"] == "text" for part in parts):
        return "\n".join(str(part["text"]) for part in parts)
    return [*parts]


class PartDecoder:
    """Decodes blocks that are content; calls, results and reasoning are decoded in `history`."""

    def __init__(self, dropped: DroppedParts) -> None:
        self._dropped = dropped

    def decode(self, blocks: Sequence[JsonObject], at: str, *, is_inner: bool = False) -> list[Part]:
        """Return the parts of blocks. Raises `InvalidRequest` with a path that begins with `at`.

        `is_inner` is for the blocks within a document or a search result, which contain no others.
        """
        parts: list[Part] = []
        for index, block in enumerate(blocks):
            if block.get("type") == "text" and isinstance(text := block.get("text"), str):  # almost all blocks
                parts += [build_text_part(text)] if text else []
            else:
                parts += self.decode_block(block, f"{at}[{index}]", is_inner=is_inner)
        return parts

    def decode_block(self, block: JsonObject, at: str, *, is_inner: bool = False) -> list[Part]:
        """Return the parts of one block; a block that no model server understands is dropped."""
        match block:
            case {"type": "text", "text": str(text)}:
                return [build_text_part(text)] if text else []
            case {"type": "image", "source": {**source}}:
                return [{"type": "image_url", "image_url": {"url": _read_url(source, f"{at}.source", "image/png")}}]
            case {"type": "document", "source": {**source}} if not is_inner:
                return self._document(block, source, at)
            case {"type": "search_result", "content": found} if not is_inner:
                texts = self.decode(read_blocks(found, f"{at}.content"), f"{at}.content", is_inner=True)
                return [_add_title(block, to_content(texts))]
            case {"type": "tool_reference", "tool_name": str(name)}:
                return [build_text_part(f"The tool {name} is available.")]
            case {"type": "compaction", "content": str(summary)}:
                return [build_text_part(summary)]
            case {"type": "text" | "image" | "document"} if not is_inner:
                raise InvalidRequest(at, "expected a text block with text, or an image or a document with a source")
            case _:
                kind = fields.read_text(block, "type", at)
                self._dropped.add(at, f"{cut_field_name(kind)} blocks are not supported")
                return []

    def _document(self, block: JsonObject, source: JsonObject, at: str) -> list[Part]:
        citations = block.get("citations")
        if is_object(citations) and citations.get("enabled") is True:
            self._dropped.add(f"{at}.citations", "models do not cite documents")
        match source:
            case {"type": "text", "data": str(text)}:
                return [_add_title(block, text)]
            case {"type": "content", "content": content}:
                inside = f"{at}.source.content"
                parts = self.decode(read_blocks(content, inside), inside, is_inner=True)
                title = _describe(block)
                return [build_text_part(title), *parts] if title else parts
            case _:
                url = _read_url(source, f"{at}.source", "application/pdf")
                title = block.get("title")
                name = title if isinstance(title, str) and title else _PDF_NAME
                return [{"type": "file", "file": {"filename": name, "file_data": url}}]


def _read_url(source: JsonObject, at: str, default: str) -> str:
    """Return the URL of a source; base64 data as a data URL of its media type."""
    match source:
        case {"type": "base64", "data": str(data)}:
            kind = source.get("media_type")
            return f"data:{kind if isinstance(kind, str) else default};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
        case {"type": "file"}:
            raise InvalidRequest(at, _SEND_DATA)
        case _:
            raise InvalidRequest(at, "expected {type: base64, media_type, data} or {type: url, url}")


def _add_title(block: JsonObject, text: Json) -> Part:
    title = _describe(block)
    return build_text_part(f"{title}\n{text}" if title else str(text))


def _describe(block: JsonObject) -> str:
    """Return what a document says of itself, one line for each field."""
    described = [block.get(key) for key in ("title", "source", "context")]
    return "\n".join(text for text in described if isinstance(text, str) and text)
