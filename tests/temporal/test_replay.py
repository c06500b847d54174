"""The workflow still does what it did in stored histories: jobs that run during an update are replayed by it.

A change that fails here needs a new workflow name, and the old one has to stay until its jobs have ended.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from forge_proxy.temporal.workflow import JobWorkflow

HISTORIES = {file.stem: file.read_text() for file in sorted((Path(__file__).parent / "histories").glob("*.json"))}


async def replay(text: str) -> None:
    replayer = Replayer(workflows=[JobWorkflow], workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(WorkflowHistory.from_json("job", text))


def test_there_are_histories() -> None:
    assert len(HISTORIES) >= 2


@pytest.mark.parametrize("name", HISTORIES)
async def test_d3_a_stored_history_is_replayed(name: str) -> None:
    await replay(HISTORIES[name])


@pytest.mark.parametrize("name", HISTORIES)
async def test_d3_another_history_is_noticed(name: str) -> None:
    history = json.loads(HISTORIES[name].replace("forge-load", "forge-other"))

    with pytest.raises(NondeterminismError):
        await replay(json.dumps(history))
