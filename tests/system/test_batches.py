"""Batches of the unmodified openai client through the daemon to a real llama.cpp, and kill -9 of the daemon."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types import Batch

from tests.fakes.llama_cpp import llama_cpp
from tests.fakes.processes import Process, daemon
from tests.fakes.recording_relay import RecordingRelay
from tests.properties import SCALE
from tests.system.runs import kill

COUNT = 500 if SCALE > 1 else 150
SLOTS = 4


@pytest.fixture(scope="module")
def relay() -> Generator[RecordingRelay]:
    with llama_cpp("secret") as url, RecordingRelay(url).running() as relay:
        yield relay


@contextmanager
def serving(relay: RecordingRelay, store: Path) -> Generator[Process]:
    env = {
        "FORGE_PROXY_STORE__URL": f"sqlite+aiosqlite:///{store}/runs.db",
        "FORGE_PROXY_BACKEND__API_KEY": "secret",
        "FORGE_PROXY_BACKEND__SLOTS": str(SLOTS),
    }
    with daemon("--backend-url", relay.url, env=env) as proxy:
        yield proxy


def sdk(proxy: Process) -> OpenAI:
    return OpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=0, timeout=60)


def content(count: int = COUNT) -> bytes:
    bodies: list[dict[str, Any]] = [
        {
            "model": "tiny-tools", "temperature": 0, "max_tokens": 8,
            "messages": [
                {"role": "system", "content": f"You are assistant {number % 5}."},
                {"role": "user", "content": f"What is the weather in city {number}?"},
            ],
        }
        for number in range(count)
    ]  # fmt: skip
    lines = [
        {"custom_id": f"line-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        for number, body in enumerate(bodies)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def submit(proxy: Process, data: bytes) -> Batch:
    with sdk(proxy) as ai:
        file = ai.files.create(file=("in.jsonl", data), purpose="batch")
        return ai.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll a condition of a batch for up to four minutes."""
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end, "the batch does not go on"
        time.sleep(0.1)


def done(proxy: Process, batch: Batch) -> int:
    with sdk(proxy) as ai:
        counts = ai.batches.retrieve(batch.id).request_counts
    return 0 if counts is None else counts.completed + counts.failed


def finish(proxy: Process, batch: Batch) -> dict[str, str]:
    """Wait for a batch and return its texts by custom id, each of which has to be there once."""
    with sdk(proxy) as ai:
        wait_for(lambda: ai.batches.retrieve(batch.id).status == "completed")
        batch = ai.batches.retrieve(batch.id)
        assert batch.error_file_id is None
        lines = [json.loads(line) for line in ai.files.content(batch.output_file_id or "").text.splitlines()]
    ids = [line["custom_id"] for line in lines]
    assert len(ids) == len(set(ids))
    return {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}


def test_s_batch_each_line_is_answered_once_though_the_daemon_is_killed_twice(
    relay: RecordingRelay, tmp_path: Path
) -> None:
    data = content()
    with serving(relay, tmp_path) as proxy:
        undisturbed = finish(proxy, submit(proxy, data))
    assert len(undisturbed) == COUNT
    relay.prompts.clear()

    with serving(relay, tmp_path) as proxy:
        batch = submit(proxy, data)
        wait_for(lambda: done(proxy, batch) >= COUNT // 5)
        kill(proxy)
    with serving(relay, tmp_path) as proxy:
        wait_for(lambda: done(proxy, batch) >= 3 * COUNT // 5)
        kill(proxy)
    with serving(relay, tmp_path) as proxy:
        texts = finish(proxy, batch)

    assert texts == undisturbed
    sent = Counter(relay.prompts)
    assert len(sent) == COUNT
    again = sum(count - 1 for count in sent.values())
    assert again <= 2 * (SLOTS + 1)  # those in flight, and one that waited for a slot


def test_s_batch_a_cancelled_batch_stays_cancelled_after_a_restart(relay: RecordingRelay, tmp_path: Path) -> None:
    with serving(relay, tmp_path) as proxy:
        batch = submit(proxy, content(300))
        wait_for(lambda: done(proxy, batch) >= 5)
        with sdk(proxy) as ai:
            ai.batches.cancel(batch.id)
        kill(proxy)
    with serving(relay, tmp_path) as proxy, sdk(proxy) as ai:
        wait_for(lambda: ai.batches.retrieve(batch.id).status == "cancelled")
        ended = ai.batches.retrieve(batch.id)
        found = [ai.files.content(name).text for name in (ended.output_file_id, ended.error_file_id) if name]
        assert sum(len(text.splitlines()) for text in found) == 300
        with pytest.raises(openai.ConflictError):
            ai.batches.cancel(batch.id)
