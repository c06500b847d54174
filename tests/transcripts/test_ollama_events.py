"""The recorded streams of Ollama's API are what the ollama package expects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ollama import ChatResponse, GenerateResponse

from tests.transcripts.recording import read_record
from tests.transcripts.scenarios import TRANSCRIPTS

_RECORD = read_record(next(one for one in TRANSCRIPTS if one.name == "ollama api"))
STREAMS = [name for name, one in _RECORD.items() if "ndjson" in one["headers"].get("content-type", "")]
WHOLE = [name for name, one in _RECORD.items() if name.endswith(", whole") and one["status"] == 200]


def lines_of(name: str) -> list[dict[str, Any]]:
    """The lines of a body, whose durations were replaced by a text."""
    return [json.loads(line.replace('_duration":"*"', '_duration":1')) for line in _RECORD[name]["body"] if line]


def content_of(lines: list[dict[str, Any]]) -> tuple[str, str, list[Any]]:
    """The text, the reasoning and the calls of all lines. Rescued calls have a new id in each response."""
    messages = [line.get("message") or {"content": line["response"]} for line in lines]
    calls = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    thinking = "".join(message.get("thinking", "") for message in messages)
    return "".join(message["content"] for message in messages), thinking, calls


@pytest.mark.parametrize("name", STREAMS)
def test_each_line_is_valid_and_only_the_last_one_is_done(name: str) -> None:
    lines = lines_of(name)

    for line in lines:
        (ChatResponse if "message" in line else GenerateResponse).model_validate(line, strict=True)
    aborted = _RECORD[name]["ending"] == "aborted"
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [not aborted]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_response_is_valid_and_the_same_as_the_streamed_one(name: str) -> None:
    (whole,) = lines_of(name)
    (ChatResponse if "message" in whole else GenerateResponse).model_validate(whole, strict=True)

    streamed = name.replace(", whole", ", streamed")
    if streamed in STREAMS and not name.startswith("lost"):  # a stream is not retried after its first text
        assert content_of(lines_of(streamed)) == content_of([whole])
        assert lines_of(streamed)[-1]["done_reason"] == whole["done_reason"]
