"""The bytes that clients and model servers receive are those that were recorded."""

from __future__ import annotations

import json

import pytest

from tests.transcripts.recording import read_record, run_transcript
from tests.transcripts.scenarios import TRANSCRIPTS, Transcript


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_every_exchange_is_the_recorded_one(transcript: Transcript) -> None:
    recorded = read_record(transcript)

    done = run_transcript(transcript)

    assert list(done) == list(recorded)
    different = [name for name in done if done[name] != recorded[name]]
    shown = {name: {"recorded": recorded[name], "now": done[name]} for name in different[:3]}
    assert different == [], json.dumps(shown, ensure_ascii=False, indent=1)
