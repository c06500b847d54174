"""Converts the content of a message in OpenAI's format to Anthropic content blocks.

Blank text is omitted because the server rejects it. Parts without an equivalent raise `InvalidRequest` with their path.
"""

from __future__ import annotations

import re

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object

Block = dict[str, Json]
CACHE = "cache_control"
"""The prompt cache breakpoint; it stays on the block where the client set it."""
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.IGNORECASE)
_NATIVE = ("image", "document", "search_result")


def text_block(text: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text}


def encode_blocks(content: Json, at: str) -> list[Block]:
    """Return the blocks of a message's content. Raises `InvalidRequest`, with paths that begin with `at`."""
    if isinstance(content, str):
        return [text_block(content)] if content.strip() else []
    blocks: list[Block] = []
    for number, part in enumerate(content if is_list(content) else []):
        place = f"{at}[{number}]"
        block = text_block(part) if isinstance(part, str) else _block(part, place) if is_object(part) else None
        if block is None or (block.get("type") == "text" and not str(block["text"]).strip()):
            continue
        if is_object(part) and part.get(CACHE) is not None:
            block[CACHE] = part[CACHE]
        blocks.append(block)
    return blocks


def _block(part: JsonObject, at: str) -> Block:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)} | {
            "type": "refusal",
            "refusal": str(text),
        }:
            return text_block(text)
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url", "image_url": str(url)}:
            return {"type": "image", "source": _source(url, f"{at}.image_url.url")}
        case {"type": "file", "file": {"file_data": str(url), **about}}:
            name = about.get("filename")
            source = _source(url, f"{at}.file.file_data")
            return {"type": "document", "source": source, **({"title": name} if isinstance(name, str) else {})}
        case {"type": str(kind), "source": source} if kind in _NATIVE:
            return {"type": kind, "source": source}
        case _:
            kind = part.get("type")
            raise InvalidRequest(at, f"the anthropic backend takes text, images and files, no {kind!r} part")


def _source(url: str, at: str) -> Block:
    if found := _DATA_URL.match(url):
        return {"type": "base64", "media_type": found[1] or "image/png", "data": url[found.end() :]}
    if url.startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    raise InvalidRequest(at, "expected an http(s) URL or a data URL in base64")
