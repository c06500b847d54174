"""A conversation that both chat completions and Messages can say survives the conversion to Messages and back."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.chat import ModelCall
from forge_proxy.wire.backends.anthropic.capabilities import ModelFacts
from forge_proxy.wire.backends.anthropic.request import encode_call
from forge_proxy.wire.clients.chat_completions.request import decode_request as decode_chat
from forge_proxy.wire.clients.messages.request import decode_request
from tests.properties import OBJECTS, TEXTS, examples

JsonDict = dict[str, Any]
_WORDS = TEXTS.map(lambda text: f"a{text}b")
"""Not blank and without white space at the ends: Anthropic's API refuses blank text, and some at the end."""
_IMAGE: JsonDict = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
_PDF: JsonDict = {
    "type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
}  # fmt: skip
_CONTENT = _WORDS | _WORDS.map(lambda text: [{"type": "text", "text": text}, _IMAGE, _PDF])


@st.composite
def conversations(draw: st.DrawFn) -> list[JsonDict]:
    """Chat messages: a system message, then turns of the user and the assistant, some with calls and their results."""
    messages: list[JsonDict] = [{"role": "system", "content": draw(_WORDS)}] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(_CONTENT)})
        for step in range(draw(st.integers(0, 2))):
            ids = [f"call_{turn}_{step}_{number}" for number in range(draw(st.integers(1, 2)))]
            said: JsonDict = {"role": "assistant", "content": draw(st.none() | _WORDS), "tool_calls": []}
            for one in ids:
                function = {"name": "get_weather", "arguments": json.dumps(draw(_ARGUMENTS), separators=(",", ":"))}
                said["tool_calls"].append({"id": one, "type": "function", "function": function})
            messages.append(said)
            messages += [{"role": "tool", "tool_call_id": one, "content": draw(_WORDS)} for one in ids]
        messages.append({"role": "assistant", "content": draw(_WORDS)})
    return [*messages, {"role": "user", "content": "And now?"}]


_ARGUMENTS = st.dictionaries(st.text(st.characters(codec="ascii"), max_size=3), st.integers(0, 9) | _WORDS, max_size=2)


def to_messages(body: JsonDict) -> JsonDict:
    """The request to Anthropic's API."""
    return encode_call(ModelCall(decode_chat(body), stream=False), ModelFacts())[0]


def parsed(messages: Any) -> list[JsonDict]:
    """The messages with their calls' arguments as objects: text may escape characters differently."""
    out: list[JsonDict] = json.loads(json.dumps(messages))
    for message in out:
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return out


@examples(100)
@given(conversations())
def test_a_conversation_survives(messages: list[JsonDict]) -> None:
    back = decode_request(to_messages({"model": "m", "messages": messages}))

    assert parsed(list(back.messages)) == parsed(messages)
    assert back.dropped == ()


@examples(50)
@given(OBJECTS, st.sampled_from([None, "auto", "required", "none", {"type": "function", "function": {"name": "now"}}]))
def test_tools_and_options_survive(schema: JsonDict, choice: Any) -> None:
    function = {"name": "now", "description": "The time.", "parameters": {**schema, "type": "object"}}
    body: JsonDict = {
        "model": "m", "max_tokens": 50, "stop": ["###"], "temperature": 0.5, "user": "u",
        "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": function}],
        **({"tool_choice": choice} if choice is not None else {}),
    }  # fmt: skip

    back = decode_request(to_messages(body)).body

    assert {"tool_choice": "auto", **back} == {"tool_choice": "auto", **body}
