"""The model's output becomes items, and these items, sent back, become the model's output again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.stream import CallDelta, Chunk, Delta
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest
from forge_proxy.wire.clients.responses.request import decode_request
from tests.properties import examples

JsonDict = dict[str, Any]
TOOLS: list[JsonDict] = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}},
    {"type": "custom", "name": "c"},
    {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]},
    {"type": "local_shell"},
    {"type": "apply_patch"},
    {"type": "tool_search", "execution": "client"},
]
ASK: JsonDict = {"model": "m", "tools": TOOLS, "include": ["reasoning.encrypted_content"]}
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
VALUES = st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9) | st.lists(TEXTS, max_size=2), max_size=3)
CALLS = st.one_of(
    st.tuples(st.sampled_from(["f", "n__f"]), VALUES),
    st.tuples(st.sampled_from(["c", "n__c"]), st.fixed_dictionaries({"input": TEXTS})),
    st.tuples(
        st.just("local_shell"), st.fixed_dictionaries({"command": st.lists(TEXTS, min_size=1), "env": st.just({})})
    ),
    st.tuples(st.just("apply_patch"), st.fixed_dictionaries({"type": st.just("delete_file"), "path": TEXTS})),
    st.tuples(st.just("tool_search"), VALUES),
)


@examples(150)
@given(
    reasoning=st.none() | TEXTS,
    text=st.none() | TEXTS,
    calls=st.lists(CALLS, max_size=3),
    is_summary=st.booleans(),
)
def test_a_turn_of_the_model_survives_a_round_trip(
    reasoning: str | None, text: str | None, calls: list[tuple[str, JsonDict]], is_summary: bool
) -> None:
    deltas = tuple(
        CallDelta(at, f"call_{at}", name, json.dumps(arguments)) for at, (name, arguments) in enumerate(calls)
    )
    collector = ResponseCollector()
    collector.add(Chunk((Delta(reasoning=reasoning, text=text, calls=deltas, finish="stop"),)))
    asked = {**ASK, "reasoning": {"summary": "auto" if is_summary else None}}
    decoded = DecodedResponsesRequest(decode_request({**asked, "input": "Hi"}))

    output = json.loads(decoded.encode_response(collector, "r", 0))["output"]
    results = [{"type": "function_call_output", "call_id": f"call_{at}", "output": "x"} for at in range(len(calls))]
    history: Any = [{"role": "user", "content": "Hi"}, *output, *results]
    again: list[Any] = list(decode_request({**asked, "input": history}).chat.messages)

    said = again[1] if reasoning or text or calls else {}
    assert (said.get("reasoning_content"), said.get("content") or None) == (reasoning, text)
    back = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in said.get("tool_calls", [])]  # fmt: skip
    assert back == [(f"call_{at}", name, arguments) for at, (name, arguments) in enumerate(calls)]
    assert [message["tool_call_id"] for message in again if message["role"] == "tool"] == [one[0] for one in back]
