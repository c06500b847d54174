"""A model server program that can misbehave, and a daemon in front of it."""

from __future__ import annotations

from collections.abc import Generator

import httpx
import pytest

from tests.fakes.processes import Process, daemon, model_server


@pytest.fixture(scope="session")
def server() -> Generator[Process]:
    with model_server() as process:
        yield process


@pytest.fixture(scope="session")
def proxy(server: Process) -> Generator[Process]:
    with daemon("--backend-url", server.url) as process:
        yield process


@pytest.fixture
def client(proxy: Process) -> Generator[httpx.Client]:
    with httpx.Client(base_url=proxy.url, timeout=20) as client:
        yield client
