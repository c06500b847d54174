"""The daemon in front of a real Ollama, in place of the embedded model. Only `make system-ollama` runs these tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.processes import Process, daemon
from tests.live.ollama.server import Running, ollama

NUM_CTX = 2048


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.ollama)


@pytest.fixture(scope="session", params=[False, True], ids=["gguf-template", "go-template"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with ollama(tmp_path_factory.mktemp("ollama"), go_template=request.param) as running:
        yield running


@pytest.fixture(scope="session")
def server(running: Running) -> str:
    """Its URL."""
    return running.url


@pytest.fixture(scope="session")
def proxy(server: str) -> Generator[Process]:
    env = {"FORGE_PROXY_BACKEND__OLLAMA__NUM_CTX": str(NUM_CTX)}
    with daemon("--backend", "ollama", "--backend-url", server, env=env) as process:
        yield process
