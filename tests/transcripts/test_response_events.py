"""The recorded streams of `/v1/responses` are what the openai package expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.response_events import final_response, read_events, validate_response
from tests.transcripts.recording import read_record
from tests.transcripts.scenarios import TRANSCRIPTS

_RECORD = read_record(next(one for one in TRANSCRIPTS if one.name == "responses"))
STREAMS = [name for name, one in _RECORD.items() if "event-stream" in one["headers"].get("content-type", "")]
WHOLE = [name for name, one in _RECORD.items() if name.endswith(", whole") and one["status"] == 200]


def body_of(name: str) -> str:
    """The body, whose times were replaced by a text."""
    return "\n".join(_RECORD[name]["body"]).replace('"created_at":"*"', '"created_at":0')


@pytest.mark.parametrize("name", STREAMS)
def test_each_event_is_valid_and_numbered_and_the_last_one_has_every_item(name: str) -> None:
    events = read_events(body_of(name).encode())

    assert [event["type"] for event in events][:2] == ["response.created", "response.in_progress"]
    assert final_response(events)["status"] in ("completed", "incomplete", "failed")


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_response_is_valid_and_the_same_as_the_streamed_one(name: str) -> None:
    whole = json.loads(body_of(name))
    validate_response(whole)

    streamed = name.replace(", whole", ", streamed")
    if streamed in STREAMS and not name.startswith("lost"):  # a stream is not retried after its first text
        assert without_ids(final_response(read_events(body_of(streamed).encode()))) == without_ids(whole)


def without_ids(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without the parts that always differ, and without tokens, which some replies do not report."""
    output = [
        {name: value for name, value in item.items() if name not in ("id", "call_id")} for item in response["output"]
    ]
    return {**response, "id": "", "usage": None, "output": output}
