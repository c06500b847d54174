"""Converts Anthropic's messages to chat messages.

The conversion of a message depends on that message alone, so the beginning of the prompt is the same in each turn.
Results come directly after their calls, before the other content of their message, as chat completions require.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object
from forge_proxy.core.stream import SIGNED_REASONING
from forge_proxy.wire.clients import fields
from forge_proxy.wire.clients.messages.content import Part, PartDecoder, build_text_part, read_blocks, to_content
from forge_proxy.wire.clients.messages.dropped import DroppedParts
from forge_proxy.wire.clients.messages.signatures import read_signature

ROLES = ("user", "assistant", "system")
_IS_ERROR = re.compile(r"\s*(?:<\w*error>|\[?error\b)", re.IGNORECASE)
"""Results whose text begins like an error."""


def decode_history(messages: Sequence[JsonObject], dropped: DroppedParts) -> list[JsonObject]:
    """Return the chat messages of `messages`. Raises `InvalidRequest` with the path of the field."""
    parts = PartDecoder(dropped)
    out: list[JsonObject] = []
    for index, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if isinstance(content, str) and isinstance(role, str) and role in ROLES:
            out.append({"role": role, "content": content})
            continue
        at = f"messages[{index}]"
        role = fields.read_text(message, "role", at)
        blocks = read_blocks(content, f"{at}.content")
        match role:
            case "assistant":
                out.append(_assistant(blocks, f"{at}.content", parts))
            case "user":
                out += _user(blocks, f"{at}.content", parts)
            case "system":
                out.append({"role": "system", "content": to_content(parts.decode(blocks, f"{at}.content"))})
            case _:
                raise InvalidRequest(f"{at}.role", f"expected one of {', '.join(ROLES)}; got {role[:40]!r}")
    return out


def find_named_tools(messages: Sequence[JsonObject]) -> list[str]:
    """Return the names of the tools that a history calls or refers to, in this order."""
    names: dict[str, None] = {}
    pending: list[Json] = [message.get("content") for message in reversed(messages)]
    while pending:
        match pending.pop():
            case list(blocks):
                pending += reversed(blocks)
            case {"type": "tool_use", "name": str(name)} | {"type": "tool_reference", "tool_name": str(name)}:
                names.setdefault(name)
            case {"type": "tool_result", "content": list(blocks)}:
                pending += reversed(blocks)
            case _:
                pass
    return list(names)


def _assistant(blocks: Sequence[JsonObject], at: str, decoder: PartDecoder) -> JsonObject:
    parts: list[Part] = []
    reasoning: list[str] = []
    signed: list[Json] = []
    calls: list[Json] = []
    for index, block in enumerate(blocks):
        match block.get("type"):
            case "thinking":
                text, kept = _read_thinking(block)
                reasoning += [text] if text else []
                signed += kept
            case "redacted_thinking" if isinstance(block.get("data"), str):
                signed.append(_without_cache(block))
            case "tool_use":
                calls.append(_call(block, f"{at}[{index}]"))
            case _:
                parts += decoder.decode_block(block, f"{at}[{index}]")
    message: dict[str, Json] = {"role": "assistant", "content": to_content(parts) if parts or not calls else None}
    if reasoning:
        message["reasoning_content"] = "\n".join(reasoning)
    if signed:
        message[SIGNED_REASONING] = signed
    if calls:
        message["tool_calls"] = calls
    return message


def _read_thinking(block: JsonObject) -> tuple[str, list[Json]]:
    """Return the reasoning of a block, and the blocks that Anthropic's API signed."""
    text, signature = block.get("thinking"), block.get("signature")
    shown = text if isinstance(text, str) else ""
    if not isinstance(signature, str) or not signature:
        return shown, []
    own = read_signature(signature)
    if own is None:
        return shown, [_without_cache(block)]
    return shown or own.reasoning, [*own.blocks]


def _without_cache(block: JsonObject) -> JsonObject:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _call(block: JsonObject, at: str) -> Json:
    name = fields.read_text(block, "name", at)
    identity = block.get("id")
    given = fields.read_object(block, "input", at)
    try:
        arguments = orjson.dumps(given).decode()
    except TypeError as exc:  # more levels than can be serialized
        raise InvalidRequest(f"{at}.input", "nested too deeply") from exc
    function: Json = {"name": name, "arguments": arguments}
    return {"id": identity if isinstance(identity, str) else "", "type": "function", "function": function}


def _user(blocks: Sequence[JsonObject], at: str, decoder: PartDecoder) -> list[JsonObject]:
    """Return the results of a user message, each a message of its own, then its other content."""
    results: list[JsonObject] = []
    media: list[Part] = []
    parts: list[Part] = []
    for index, block in enumerate(blocks):
        kind, text = block.get("type"), block.get("text")
        if kind == "text" and isinstance(text, str) and text:  # almost all blocks
            parts.append(build_text_part(text))
        elif kind == "tool_result":
            result, more = _result(block, f"{at}[{index}]", decoder)
            results.append(result)
            media += more
        else:
            parts += decoder.decode_block(block, f"{at}[{index}]")
    if media or parts or not results:
        results.append({"role": "user", "content": to_content([*media, *parts])})
    return results


def _result(block: JsonObject, at: str, decoder: PartDecoder) -> tuple[JsonObject, list[Part]]:
    """Return the message of a result, and its images and files: model servers accept these from the user only."""
    identity, content = block.get("tool_use_id"), block.get("content")
    text, media = (content, []) if isinstance(content, str) else _result_content(content, f"{at}.content", decoder)
    if media:
        note = f"[{len(media)} attached, in the next user message]"
        text = f"{text}\n{note}" if text else note
        media.insert(0, build_text_part(f"The attachments of the result of {identity}:"))
    if block.get("is_error") is True and not _IS_ERROR.match(text):
        text = f"Error: {text}"
    return {"role": "tool", "tool_call_id": identity if isinstance(identity, str) else "", "content": text}, media


def _result_content(content: Json, at: str, decoder: PartDecoder) -> tuple[str, list[Part]]:
    """Return the text of a result, and its images and files."""
    parts = decoder.decode(read_blocks(content, at), at)
    texts = [part for part in parts if part["type"] == "text"]
    return str(to_content(texts)), [part for part in parts if part["type"] != "text"]


def has_cache_marks(value: Json, levels: int = 3) -> bool:
    """Return whether a block of `value` (messages, system or tools) has a prompt cache breakpoint.

    `levels` are those of lists: messages contain blocks, and these the blocks of results.
    """
    for item in value if is_list(value) and levels else []:
        if not is_object(item):
            continue
        if "cache_control" in item and is_object(item["cache_control"]):
            return True
        inner = item.get("content")
        if is_list(inner) and has_cache_marks(inner, levels - 1):
            return True
    return False
