"""Real clients do their tasks through the daemon: `pytest -m harness`, or with the table `make harness`."""

from __future__ import annotations

import pytest

from tests.harness.cell import do_both
from tests.harness.client import Client
from tests.harness.clients import CLIENTS
from tests.harness.fault import Fault
from tests.harness.faults import FAULTS
from tests.harness.lane import Lane


@pytest.mark.harness
@pytest.mark.parametrize(
    ("client", "fault"),
    [
        pytest.param(client, fault, id=f"{client.name}-{fault.name}")
        for client in CLIENTS
        for fault in FAULTS.values()
        if fault.concerns(client.name)
    ],
)
def test_a_client_does_its_task_no_worse_than_without_us(client: Client, fault: Fault) -> None:
    client.package.install()

    with Lane() as lane:
        both = do_both(client, fault, lane)

    assert both.passed, f"{both.direct.word} → {both.guarded.word}: {both.guarded.lacks}\n{both.guarded.ran.printed}"
