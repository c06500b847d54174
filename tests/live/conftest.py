"""One daemon with the embedded llama.cpp and the tiny model for the whole session, and the real openai SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import openai
import pytest

from tests.fakes.processes import Process, daemon


@pytest.fixture(scope="session")
def proxy() -> Generator[Process]:
    with daemon("--backend", "embedded") as process:
        yield process


@pytest.fixture
def client(proxy: Process) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
async def async_client(proxy: Process) -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
