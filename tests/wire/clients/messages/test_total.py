"""Any JSON is decoded to a valid chat request or refused with the path of a field."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.wire.clients.messages.request import decode_request
from tests.properties import TEXTS, VALUES, examples

JsonDict = dict[str, Any]
_FIELDS = (
    "type", "text", "content", "source", "data", "media_type", "url", "name", "id", "input", "tool_use_id", "thinking",
    "signature", "title", "tool_name", "is_error", "cache_control", "role", "effort", "format", "budget_tokens",
    "display", "input_schema", "defer_loading", "allowed_callers", "strict", "edits", "keep", "user_id",
)  # fmt: skip
_WORDS = (
    "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "tool_reference", "base64",
    "search_result", "url", "content", "file", "user", "assistant", "system", "auto", "any", "tool", "none", "enabled",
    "custom", "bash_20250124", "computer_20251124", "web_search_20250305", "json_schema", "ephemeral", "high",
    "forge-proxy.1.z.AAAA", "x-anthropic-billing-header: cch=1;",
)  # fmt: skip
_LEAVES = st.sampled_from(_WORDS) | VALUES
_NESTED: st.SearchStrategy[Any] = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=4),
    max_leaves=12,
)
_BODIES = st.dictionaries(
    st.sampled_from(
        ("messages", "system", "tools", "tool_choice", "thinking", "output_config", "output_format", "max_tokens",
         "stop_sequences", "stream", "metadata", "context_management", "model", "thread", "temperature", "new_field")
    ),
    _NESTED,
)  # fmt: skip
_BLOCKS = st.lists(st.dictionaries(st.sampled_from(_FIELDS), _NESTED, max_size=5), max_size=3)
_MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(("user", "assistant", "system")), "content": TEXTS | _BLOCKS}),
    min_size=1,
    max_size=3,
)


def decode(body: JsonDict) -> ChatRequest | InvalidRequest:
    try:
        return decode_request(body)
    except InvalidRequest as refusal:
        return refusal


@examples(200)
@given(_BODIES, st.none() | _MESSAGES)
def test_any_json_is_decoded_or_refused(body: JsonDict, messages: list[JsonDict] | None) -> None:
    if messages is not None:
        body = {**body, "messages": messages}

    chat = decode(body)

    if isinstance(chat, InvalidRequest):
        assert chat.at
        return
    assert chat.messages
    assert all(isinstance(message["content"], str | list) or message.get("tool_calls") for message in chat.messages)
    assert all("\n" not in what for what in chat.dropped)
    orjson.dumps({key: value for key, value in chat.body.items() if key not in ("temperature", "stop", "user")})
