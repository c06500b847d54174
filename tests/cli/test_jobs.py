"""`forge-proxy jobs`: jobs as text, each above the jobs that it has created."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.jobs import JobDidNotComplete, jobs
from forge_proxy.client.remote import AdminClient, SentEvent


def job(job_id: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": job_id, "kind": "batch", "status": "waiting", "title": "t", "model": None, "parent": None,
        "created_at": 0.0, "updated_at": 0.0, "wake_at": None, "last_event": 3, "cancel_requested": False,
        "children": [], "phase": "answer", "queue": "lines", "attempt": 2, "outcome": None, **fields,
    }  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The responses of the daemon by method and path; a request for another one fails."""
    responses: dict[str, Any] = {}

    def admin(self: AdminClient, method: str, path: str, body: object = None, **query: Any) -> dict[str, Any]:
        words = [f"{name}={value}" for name, value in query.items()]
        return responses[" ".join((method, path, *words))]

    monkeypatch.setattr(AdminClient, "admin", admin)
    return responses


def run(*words: str) -> Any:
    return CliRunner().invoke(jobs, [*words])


def test_children_are_listed_below_their_parent(asked: dict[str, Any]) -> None:
    below = job("shard_1", parent="batch_1", kind="shard", children=[job("line_1", kind="line", status="running")])
    asked["GET jobs limit=20"] = {"data": [job("batch_1", children=[below]), job("run_1", kind="run")], "next": None}

    lines = run().stdout.splitlines()

    assert [line.split()[:3] for line in lines] == [
        ["batch_1", "batch", "waiting"],
        ["shard_1", "shard", "waiting"],
        ["line_1", "line", "running"],
        ["run_1", "run", "waiting"],
    ]
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 4, 0]


def test_lists_are_limited_to_a_kind_and_a_status(asked: dict[str, Any]) -> None:
    asked["GET jobs limit=3 kind=run status=failed"] = {"data": [], "next": None}

    shown = run("list", "-n", "3", "--kind", "run", "--status", "failed")

    assert (shown.stdout, shown.stderr) == ("", "no jobs\n")


def test_a_job_is_shown_with_its_next_step_and_its_children(asked: dict[str, Any]) -> None:
    asked["GET jobs/batch_1"] = job("batch_1", wake_at=5.0, cancel_requested=True, children=[job("shard_1")])

    shown = dict(line.split(maxsplit=1) for line in run("show", "batch_1").stdout.splitlines())

    assert shown["status"] == "waiting; it ends when its step has"
    assert shown["step"] == "answer in the queue lines, attempt 2"
    assert {"continues", "shard_1"} <= set(shown)
    assert "parent" not in shown


@pytest.mark.parametrize(
    ("outcome", "row"),
    [
        ({"kind": "error", "type": "E", "message": "m"}, ("error", "E: m")),
        ({"lines": 3}, ("outcome", '{"lines": 3}')),
    ],
)
def test_the_outcome_is_shown(asked: dict[str, Any], outcome: Any, row: tuple[str, str]) -> None:
    asked["GET jobs/b"] = job("b", status="failed", phase=None, queue=None, attempt=None, outcome=outcome)

    shown = dict(line.split(maxsplit=1) for line in run("show", "b").stdout.splitlines())

    assert shown[row[0]] == row[1]
    assert "step" not in shown


def test_watching_a_job_that_fails_is_an_error(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def events(self: AdminClient, path: str, is_last: Any) -> Any:
        for event in (SentEvent(1, "status", {"status": "queued"}), SentEvent(2, "status", {"status": "failed"})):
            yield event
            if is_last(event):
                return
        raise AssertionError("the last event was not recognized")

    monkeypatch.setattr(AdminClient, "events", events)
    asked["GET jobs/b"] = job("b", status="failed", outcome={"kind": "error", "type": "E", "message": "m"})

    watched = run("watch", "b")

    assert [line.split() for line in watched.stdout.splitlines()] == [
        ["1", "status", "queued"],
        ["2", "status", "failed"],
    ]
    assert isinstance(watched.exception, JobDidNotComplete)
    assert str(watched.exception) == "E: m"


@pytest.mark.parametrize(
    ("status", "printed"), [("cancelled", "cancelled\n"), ("running", "running; it ends when its step has\n")]
)
def test_a_job_is_cancelled(asked: dict[str, Any], status: str, printed: str) -> None:
    asked["POST jobs/a%2Fb/cancel"] = job("a/b", status=status)

    assert run("cancel", "a/b").stdout == printed
