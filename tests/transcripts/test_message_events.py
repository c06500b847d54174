"""The recorded streams of `/v1/messages` are what the anthropic package expects."""

from __future__ import annotations

import json

import pytest
from anthropic.types import ErrorResponse, Message

from tests.fakes.message_events import JsonDict, assemble, check_fields, read_events
from tests.transcripts.recording import read_record
from tests.transcripts.scenarios import TRANSCRIPTS

_RECORD = read_record(next(one for one in TRANSCRIPTS if one.name == "messages"))
STREAMS = [name for name, one in _RECORD.items() if "event-stream" in one["headers"].get("content-type", "")]
WHOLE = [name for name, one in _RECORD.items() if name.endswith(", whole") and one["status"] == 200]
ERRORS = [name for name, one in _RECORD.items() if one["status"] >= 400]


def body_of(name: str) -> str:
    return "\n".join(_RECORD[name]["body"])


@pytest.mark.parametrize("name", STREAMS)
def test_each_event_is_valid_and_the_blocks_come_one_after_another(name: str) -> None:
    events = read_events(body_of(name))

    if events[-1]["type"] == "error":
        check_fields(ErrorResponse.model_validate(events[-1]))
    else:
        check_fields(Message.model_validate(assemble(events)))


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_message_is_valid_and_the_same_as_the_streamed_one(name: str) -> None:
    whole = json.loads(body_of(name))
    check_fields(Message.model_validate(whole))

    streamed = name.replace(", whole", ", streamed")
    if streamed in STREAMS and not name.startswith("lost"):  # a stream is not retried after its first text
        assert without_tokens(assemble(read_events(body_of(streamed)))) == without_tokens(whole)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_valid_and_has_the_id_of_its_request(name: str) -> None:
    error = json.loads(body_of(name))

    error["error"].pop("details", None)  # which the SDK reads, and its types do not have
    check_fields(ErrorResponse.model_validate(error))
    assert error["request_id"] == _RECORD[name]["headers"]["request-id"] == "req-recorded"


def without_tokens(message: JsonDict) -> JsonDict:
    """A message without its tokens, which some replies do not report."""
    return {**message, "usage": None}
