"""Runs a transcript against a real daemon, and keeps its record: a JSON file for each transcript."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from tests.fakes.processes import daemon
from tests.transcripts.exchange import Exchange, run_exchange
from tests.transcripts.scenarios import Transcript
from tests.transcripts.server import scripted_server

JsonDict = dict[str, Any]
_FOLDER = Path(__file__).parent / "recorded"


def run_transcript(transcript: Transcript) -> JsonDict:
    """The result of each exchange, by its name."""
    with TemporaryDirectory() as state, scripted_server() as server:
        settings = {
            "XDG_STATE_HOME": state,
            "FORGE_PROXY_BACKEND__API_KEY": "sk-backend",
            "FORGE_PROXY_GUARDRAILS__ON_EARLY_END": transcript.early_end,
            **transcript.settings,
        }
        options = ("--backend", transcript.kind, "--backend-url", server.url, "--model", "scripted")
        with daemon(*options, env=settings) as proxy, httpx.Client(base_url=proxy.url, timeout=30) as client:
            done: JsonDict = {}
            for exchange in transcript.exchanges:
                assert exchange.name not in done, f"two exchanges are named {exchange.name!r}"
                done[exchange.name] = run_exchange(_with_latest_run(exchange, client), client, server)
            return json.loads(json.dumps(done).replace(state, "STATE"))


def _with_latest_run(exchange: Exchange, client: httpx.Client) -> Exchange:
    """The exchange with the id of the latest run in its path, if it has a place for it."""
    if "{latest}" not in exchange.path:
        return exchange
    listed = client.get("/admin/v1/runs").json()["data"]
    return replace(exchange, path=exchange.path.replace("{latest}", listed[0]["id"] if listed else "run_none"))


def record_of(transcript: Transcript) -> Path:
    """The file with the transcript's record."""
    return _FOLDER / f"{transcript.name.replace(',', '').replace(' ', '_')}.json"


def read_record(transcript: Transcript) -> JsonDict:
    """What came of each exchange when it was recorded. Raises `FileNotFoundError`."""
    record: JsonDict = json.loads(record_of(transcript).read_text(encoding="utf-8"))
    return record


def write_record(transcript: Transcript, done: JsonDict) -> None:
    """Record the result of each exchange."""
    text = json.dumps(done, ensure_ascii=False, indent=1)
    record_of(transcript).write_text(f"{text}\n", encoding="utf-8")
