"""The stored text of requests: differences between attempts, and limits of size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ModelCall, ToolGrammar, ToolSpec
from forge_proxy.core.requests.content import AttemptContent, CallDifference, RequestContent, StoredContent
from forge_proxy.core.stream import Reply
from forge_proxy.wire.clients.chat_completions.request import decode_request
from forge_proxy.wire.request_content import LONGEST_TEXT, MAX_CONTENT, decode_content, encode_content
from tests.fakes.records import CLEAN

_ITEMS = st.lists(st.sampled_from([{"a": 1}, {"b": 2}, {"c": [3]}]), max_size=4)
_BODIES = st.fixed_dictionaries(
    {}, optional={"messages": _ITEMS, "tools": st.none() | _ITEMS, "model": st.text(max_size=2), "n": st.integers(0, 2)}
)


def content_with(messages: list[Any], *replies: Reply, grammar: ToolGrammar | None = None) -> RequestContent:
    request = decode_request({"messages": messages})
    if grammar is not None:
        request = request.__class__(request.body, request.messages, tools=(ToolSpec("patch", grammar=grammar),))
    attempt = AttemptContent("r", 1, ModelCall(request, stream=False), replies, "delivered")
    return RequestContent(CLEAN, request, (attempt,), replies)


def stored(content: RequestContent) -> StoredContent:
    encoded = encode_content(content)
    assert encoded is not None
    found = decode_content(encoded.data)
    assert found.is_cut == encoded.is_cut
    return found


@given(_BODIES, _BODIES)
def test_a_difference_restores_the_call(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert CallDifference.between(before, after).apply(before) == after


def test_a_conversation_is_stored_once() -> None:
    messages = [{"role": "user", "content": "x" * 100_000}]
    found = stored(content_with(messages))

    (attempt,) = found.attempts
    assert (attempt.call.kept_messages, attempt.call.messages) == (1, ())
    assert attempt.call.apply(found.request) == found.request == {"messages": messages}


def test_long_texts_of_a_large_request_are_cut() -> None:
    long, short = "a" * MAX_CONTENT + "z", "short"
    messages = [{"role": "user", "content": [{"type": "text", "text": long}, {"type": "text", "text": short}]}]

    found = stored(content_with(messages, Reply(text=long)))

    assert found.is_cut
    parts: Any = found.request["messages"]
    texts = [part["text"] for part in parts[0]["content"]]
    assert texts[1] == short
    assert texts[0].startswith("a" * (LONGEST_TEXT // 2) + f"\n[{len(long) - LONGEST_TEXT} characters were not stored]")
    assert texts[0].endswith("z")
    assert len(found.received[0].text or "") < LONGEST_TEXT + 100


def test_a_request_that_is_too_large_even_so_is_not_stored() -> None:
    messages = [{"role": "user", "content": "x" * LONGEST_TEXT} for _ in range(MAX_CONTENT // LONGEST_TEXT + 1)]

    assert encode_content(content_with(messages)) is None


@pytest.mark.parametrize("text", ["\ud800 alone", "a\0b", "\U0001f600", "é"])
def test_any_text_is_stored(text: str) -> None:
    found = stored(content_with([{"role": "user", "content": text, "n": 2**70}]))

    messages: Any = found.request["messages"]
    assert messages[0]["content"] == text.replace("\ud800", "?")


def test_what_chat_completions_do_not_have_is_stored_beside_them() -> None:
    grammar = ToolGrammar("lark", "start: /.+/")

    assert stored(content_with([{"role": "user", "content": "Hi"}], grammar=grammar)).grammars == {"patch": grammar}
