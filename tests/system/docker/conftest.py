"""The stack that `docker compose up` starts, built and healthy."""

from __future__ import annotations

from collections.abc import Generator

import httpx
import pytest

from tests.system.docker.compose import DockerMissing, Stack, compose_command, running


@pytest.fixture(scope="session")
def stack() -> Generator[Stack]:
    try:
        compose_command()
    except DockerMissing as missing:
        pytest.fail(str(missing), pytrace=False)
    with running() as stack:
        yield stack


@pytest.fixture
def client(stack: Stack) -> Generator[httpx.Client]:
    with httpx.Client(base_url=stack.url, timeout=30) as client:
        yield client
