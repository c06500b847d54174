"""The progress of a real llama.cpp in processing the prompt is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from tests.fakes.processes import daemon
from tests.live.weather import MODEL, TOOLS

PROMPT = [{"role": "user", "content": "word " * 380}]


@pytest.fixture(scope="module")
def client() -> Generator[httpx.Client]:
    """A daemon whose headers are sent at once, and not only when the model begins to write."""
    env = {"FORGE_PROXY_SERVER__FIRST_EVENT_SECONDS": "0.001", "FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1"}
    with daemon("--backend", "embedded", env=env) as process, httpx.Client(base_url=process.url, timeout=60) as client:
        yield client


def lines(client: httpx.Client, **fields: Any) -> list[str]:
    body = {"model": MODEL, "messages": PROMPT, "stream": True, "max_tokens": 5, "cache_prompt": False, **fields}
    return [line for line in client.post("/v1/chat/completions", json=body).text.splitlines() if line]


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS}], ids=["passed-through", "guarded"])
def test_progress_is_reported_in_comments_and_leaves_the_events_unchanged(
    client: httpx.Client, fields: dict[str, Any]
) -> None:
    told = lines(client, **fields)

    read = [re.fullmatch(r": prefill (\d+)/(\d+)", line) for line in told]
    assert [match[1] == match[2] for match in read if match][-1:] == [True]
    assert not any("prompt_progress" in line for line in told)
    assert told[-1] == "data: [DONE]"


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS}], ids=["passed-through", "guarded"])
def test_who_asks_for_it_gets_the_events_as_they_are(client: httpx.Client, fields: dict[str, Any]) -> None:
    told = lines(client, return_progress=True, **fields)

    events = [json.loads(line[6:]) for line in told if line.startswith("data: {")]
    read = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    attempts = max(1, len(read) // 2)  # with guardrails the request may be retried
    assert [(one["processed"] == one["total"]) for one in read] == [False, True] * attempts
    assert not any(line.startswith(": prefill") for line in told)
