"""Lines of a response are converted to chunks. tests/contracts checks with recorded bytes that cuts do not matter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_proxy.core.stream import Completion, CompletionBuilder
from forge_proxy.wire.backends.ollama.stream import OllamaStreamReader
from forge_proxy.wire.sse import TooLarge
from tests.properties import LENGTHS, cut, examples

HEAD = {"model": "m", "created_at": "2026-11-21T19:33:57.735561443Z"}


def line(done: bool = False, **fields: Any) -> bytes:
    message = {"role": "assistant", "content": "", **fields.pop("message", {})}
    return json.dumps({**HEAD, "message": message, "done": done, **fields}).encode() + b"\n"


def read(pieces: list[bytes]) -> tuple[Completion, OllamaStreamReader]:
    reader, builder = OllamaStreamReader(), CompletionBuilder()
    for piece in pieces:
        for chunk in reader.feed(piece):
            builder.add(chunk)
    for chunk in reader.end():
        builder.add(chunk)
    return builder.completion(), reader


def test_counts_and_times_go_by_the_names_that_clients_know() -> None:
    end = line(
        done=True, done_reason="stop", prompt_eval_count=112, prompt_eval_cached_count=85, eval_count=30,
        prompt_eval_duration=11_125_000, eval_duration=40_319_000, load_duration=31_000_000, total_duration=89_000_000,
    )  # fmt: skip

    answer, _ = read([end])

    assert answer.usage == {
        "prompt_tokens": 112,
        "completion_tokens": 30,
        "total_tokens": 142,
        "prompt_tokens_details": {"cached_tokens": 85},
    }
    assert answer.head == {
        "model": "m",
        "created": 1795289637,
        "timings": {
            "cache_n": 85,
            "prompt_n": 27,
            "predicted_n": 30,
            "prompt_ms": 11.125,
            "predicted_ms": 40.319,
            "load_ms": 31.0,
            "total_ms": 89.0,
        },
    }


def test_log_probabilities_stand_beside_the_text() -> None:
    token = {"token": "H", "logprob": -0.2, "bytes": [72]}
    pieces = [
        line(message={"content": "H"}, logprobs=[{**token, "top_logprobs": [token]}]),
        line(message={"content": "e"}, logprobs=[{"token": "e", "logprob": -0.1}]),
        line(done=True),
    ]

    (reply,) = read(pieces)[0].replies

    content = [
        {**token, "top_logprobs": [token]},
        {"token": "e", "logprob": -0.1, "bytes": None, "top_logprobs": []},
    ]
    assert reply.logprobs is not None
    assert json.loads(reply.logprobs.encode()) == {"content": content, "refusal": None}


@pytest.mark.parametrize(
    ("told", "calls", "finish"),
    [
        ("stop", False, "stop"),
        (None, False, "stop"),
        ("length", False, "length"),
        ("stop", True, "tool_calls"),
        ("length", True, "length"),
    ],
)
def test_the_reason_for_the_end(told: str | None, calls: bool, finish: str) -> None:
    call = {"function": {"name": "f", "arguments": {}}}
    message = {"tool_calls": [call]} if calls else {}

    (reply,) = read([line(done=True, done_reason=told, message=message)])[0].replies

    assert reply.finish == finish


def test_an_endless_line_is_an_error() -> None:
    reader = OllamaStreamReader(limit=1000)

    for _ in range(3):
        reader.feed(b"x" * 500)

    assert isinstance(reader.fault, TooLarge)


WORDS = st.sampled_from(["a", "é", "😀", "\n", '"', "<tool_call>", "\\", " ", "\u2028"])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(WORDS).map("".join),
        "thinking": st.lists(WORDS).map("".join),
        "tool_calls": st.lists(st.just({"function": {"name": "f", "arguments": {"é": "\n"}}}), max_size=2),
    },
)


@examples(150)
@given(messages=st.lists(MESSAGES, max_size=5), lengths=LENGTHS, ascii_only=st.booleans())
def test_any_cut_gives_the_same_answer(messages: list[dict[str, Any]], lengths: list[int], ascii_only: bool) -> None:
    said: list[dict[str, Any]] = [{**HEAD, "message": message, "done": False} for message in messages]
    said.append({**HEAD, "message": {}, "done": True, "eval_count": 3})
    whole = b"".join(json.dumps(one, ensure_ascii=ascii_only).encode() + b"\r\n" for one in said)

    at_once, _ = read([whole])

    assert read(cut(whole, lengths))[0] == at_once
    assert read([whole[place : place + 1] for place in range(len(whole))])[0] == at_once
