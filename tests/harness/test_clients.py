"""Real clients do their tasks through the daemon: `pytest -m harness`, or with the table `make harness`."""

from __future__ import annotations

import pytest

from tests.harness.cell import do_both
from tests.harness.client import Client
from tests.harness.clients import CLIENTS
from tests.harness.mistakes import MISTAKES


@pytest.mark.harness
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_does_its_task_whatever_its_model_gets_wrong(client: Client, mistake: str) -> None:
    client.package.install()

    both = do_both(client, mistake)

    assert both.passed, f"{both.direct.word} → {both.guarded.word}: {both.guarded.lacks}\n{both.guarded.ran.printed}"
