"""The window of a real Ollama, switched over HTTP while clients send requests."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from itertools import cycle

import httpx
import pytest

from tests.fakes.processes import Process, daemon
from tests.live.ollama.conftest import NUM_CTX
from tests.live.ollama.server import ask
from tests.live.weather import ASK_PARIS, MODEL, TOOLS
from tests.system.load import load

SECONDS = float(os.environ.get("FORGE_TEST_SWITCH_SECONDS", "0"))
"""Seconds for which budgets are switched under load; by default there are a few switches."""


def window(server: str) -> int | None:
    """The window of the loaded model, as Ollama reports it."""
    models = ask(server, "/api/ps")["models"]
    return models[0]["context_length"] if models else None


@pytest.mark.parametrize("running", [False], indirect=True, ids=["gguf-template"], scope="session")
async def test_budgets_switched_under_load_lose_no_request(server: str, proxy: Process) -> None:
    """The figures are on stdout: `pytest -rP` shows them."""
    body = {"model": MODEL, "messages": ASK_PARIS, "tools": TOOLS, "max_tokens": 60}
    wishes = [({"mode": "manual", "tokens": 1024}, 1024), ({"mode": "backend"}, NUM_CTX)]
    took: list[float] = []
    async with load(proxy.url, body) as answered, httpx.AsyncClient(base_url=proxy.url, timeout=60) as operator:
        began = time.monotonic()
        for wish, tokens in cycle(wishes):
            await asyncio.sleep(5 if SECONDS else 1)
            asked = time.monotonic()
            switched = await operator.put("/admin/v1/budget", json=wish)
            took.append(time.monotonic() - asked)
            assert switched.status_code == 200, switched.text
            assert window(server) == tokens
            if len(took) % len(wishes) == 0 and time.monotonic() - began >= SECONDS:
                break

    sys.stdout.write(f"{len(took)} switches, the longest in {max(took):.1f} s; {answered.in_words}\n")
    assert min(answered.each) > 0


@pytest.mark.parametrize("running", [False], indirect=True, ids=["gguf-template"], scope="session")
def test_half_of_the_machines_tier_is_what_a_model_is_loaded_with(server: str) -> None:
    with daemon("--backend", "ollama", "--backend-url", server) as proxy:
        hello = {"model": MODEL, "messages": ASK_PARIS, "max_tokens": 5}
        full = httpx.put(proxy.url + "/admin/v1/budget", json={"mode": "forge-full"}, timeout=60).json()
        httpx.post(proxy.url + "/v1/chat/completions", json=hello, timeout=60)
        fast = httpx.put(proxy.url + "/admin/v1/budget", json={"mode": "forge-fast"}, timeout=60).json()
        told = httpx.get(proxy.url + "/v1/models").json()["data"][0]["max_context"]

    assert fast["tokens"] == full["tokens"] // 2 == told == window(server)
    assert fast["enforced"]
