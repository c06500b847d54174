"""The harness checks a client by its effects: one that only claims to have done its task has not done it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.fakes.processes import Process
from tests.fakes.says import Said
from tests.harness.backend import ScriptedModel
from tests.harness.cell import Both, Ended, do_both, do_task, ended_before
from tests.harness.client import Client, Place
from tests.harness.faults import FAULTS
from tests.harness.lane import Lane
from tests.harness.mistakes import MISTAKES
from tests.harness.packages import NODE
from tests.harness.results import Result, keep, kept
from tests.harness.running import Command, Ran, run
from tests.harness.table import document, list_worse, render
from tests.harness.tasks import EditFile, ExtractTwo, JsonDict, ReadThenWrite, Task

PROPERTIES: JsonDict = {"filePath": {}, "content": {}, "limit": {"type": "integer"}}
TOOLS: list[JsonDict] = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": PROPERTIES}}}
    for name in ("read", "write")
]


def client(*words: str, task: type[Task] = ReadThenWrite) -> Client:
    return Client("client", NODE, lambda _: Command(words), task)


@pytest.mark.process
@pytest.mark.parametrize("task", [ReadThenWrite, ExtractTwo, EditFile])
def test_a_client_that_only_says_that_it_is_done_has_not_done_it(task: type[Task]) -> None:
    with Lane() as lane:
        ended = do_task(client("echo", ReadThenWrite.answer, task=task), FAULTS["none"], lane, through_daemon=False)

    assert ended.lacks is not None
    assert ended.word == "silent"


@pytest.mark.process
def test_a_client_that_does_not_end_is_ended(tmp_path: Path) -> None:
    assert run(Command(("sh", "-c", "sleep 600 & wait")), tmp_path, tmp_path, 0.1).code is None


@pytest.mark.process
def test_a_client_of_an_api_that_the_server_does_not_speak_is_run_through_the_daemon_only() -> None:
    with Lane() as lane:
        row = replace(client("echo", ReadThenWrite.answer), is_served_directly=False)
        direct = do_task(row, FAULTS["none"], lane, through_daemon=False)

    assert (direct.word, direct.ran.printed) == ("not served", "")
    assert Both(row, FAULTS["401"], direct, ended("error")).worse is None
    assert Both(row, FAULTS["401"], direct, replace(ended("hangs"), seconds=99.0)).worse is None


@pytest.mark.parametrize(("fault", "passed"), [("500", True), ("empty", False)])
def test_a_client_that_does_not_retry_ends_well_with_the_error_of_a_server(fault: str, passed: bool) -> None:
    row = replace(client(), retries_errors=False)

    assert Both(row, FAULTS[fault], ended("error"), ended("error")).passed is passed
    assert not Both(client(), FAULTS[fault], ended("error"), ended("error")).passed
    assert not Both(row, FAULTS[fault], ended("silent"), ended("silent")).passed


@pytest.mark.parametrize("name", MISTAKES)
def test_at_each_point_the_second_answer_is_right(tmp_path: Path, name: str) -> None:
    task = ReadThenWrite(tmp_path)
    task.prepare()
    messages: list[JsonDict] = [{"role": "user", "content": task.prompt}]
    model = ScriptedModel(task, FAULTS[name])

    def answer_twice() -> Said:
        model.answer({"messages": messages, "tools": TOOLS})
        return model.answer({"messages": messages, "tools": TOOLS}).said

    assert answer_twice().calls == (("read", f'{{"filePath": "{tmp_path / "hello.py"}"}}'),)
    messages.append({"role": "tool", "content": (tmp_path / "hello.py").read_text()})
    assert answer_twice().calls[0][0] == "write"
    (tmp_path / "greeting.txt").write_text(task.greeting)
    messages.append({"role": "tool", "content": "written"})
    assert answer_twice().text == task.answer
    assert task.lacks(task.answer) is None
    assert task.lacks("something else") == "answer not shown"


def test_a_table_tells_what_was_done_what_could_not_be_what_is_absent_and_what_was_not_run() -> None:
    done = Result("client", "text", "silent", "done", True, True, None, "client 1", "2026-01-01")
    cells = [
        done,
        replace(done, mistake="500", guarded="error", passed=False),
        replace(done, mistake="empty", occasion=False),
    ]
    results = {(cell.client, cell.mistake): cell for cell in cells}

    table = render(["client", "absent"], ["text", "500", "empty", "none"], results, {"absent": "no network"})

    assert table.splitlines()[2:] == [
        "| client | silent → done | silent → error | – |  |",
        "| absent | not installed |  |  |  |",
    ]


@pytest.mark.parametrize(("offers_tools", "passed"), [(True, False), (False, True)])
def test_what_passes_through_us_has_to_end_as_without_us_and_the_rest_well(offers_tools: bool, passed: bool) -> None:
    silent = ended("silent")

    assert Both(replace(client(), offers_tools=offers_tools), FAULTS["empty"], silent, silent).passed is passed


@pytest.mark.parametrize(
    ("direct", "guarded", "worse"),
    [
        ("done", "done", False),
        ("done", "error", True),
        ("done", "silent", True),
        ("error", "silent", True),
        ("error", "hangs", True),
        ("silent", "error", False),
        ("silent", "silent", False),
        ("hangs", "done", False),
    ],
)
def test_an_end_that_reports_less_or_comes_later_is_worse(direct: str, guarded: str, worse: bool) -> None:
    both = Both(client(), FAULTS["401"], ended(direct), ended(guarded))

    assert (both.worse is not None, both.passed) == (worse, not worse)


@pytest.mark.parametrize(("seconds", "passed"), [(29.0, True), (31.0, False)])
def test_the_same_end_much_later_is_worse(seconds: float, passed: bool) -> None:
    assert Both(client(), FAULTS["401"], ended("done"), replace(ended("done"), seconds=seconds)).passed is passed


def ended(word: str) -> Ended:
    code = {"done": 0, "silent": 0, "error": 1, "hangs": None}[word]
    return Ended(None if word == "done" else "hello.py not read", 1, Ran(code, ""), [])


class FakeDaemons:
    """A scripted server in place of daemons, which take seconds to start."""

    started = 0

    @contextmanager
    def start(self, *options: str, **_: object) -> Generator[Process]:
        self.started += 1
        yield cast("Process", SimpleNamespace(url=options[-1]))


@pytest.mark.process
def test_cells_share_a_daemon_until_it_may_remember_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    daemons = FakeDaemons()
    monkeypatch.setattr("tests.harness.lane.daemon", daemons.start)
    with Lane() as lane:
        for fault, known in (("401", 1), ("silence", 2), ("silence", 2), ("401", 2), ("silence", 3)):
            do_both(client("false"), FAULTS[fault], lane)
            assert daemons.started == known


@pytest.mark.process
def test_a_failure_with_a_used_daemon_counts_only_if_another_daemon_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    def start(place: Place) -> Command:
        urls.append(place.url)
        return Command(("sleep", "600") if len(urls) == 4 else ("false",))

    monkeypatch.setattr("tests.harness.cell.SECONDS", 2.0)
    monkeypatch.setattr("tests.harness.lane.daemon", FakeDaemons().start)
    with Lane() as lane:
        ends = [do_both(Client("client", NODE, start), FAULTS["silence"], lane).passed for _ in range(2)]

    assert (ends, len(urls)) == ([True, True], 6)


@pytest.mark.process
def test_a_fault_that_gave_no_occasion_with_a_used_daemon_is_tried_with_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    daemons = FakeDaemons()
    made = iter((0, 1, 0, 0, 1))  # the second cell's daemon is used, and does not retry text any more

    def later(_: Client, __: object, lane: Lane, *, through_daemon: bool) -> Ended:
        if through_daemon:
            lane.daemon_url()
        return replace(ended("done"), made=next(made))

    monkeypatch.setattr("tests.harness.cell.do_task", later)
    monkeypatch.setattr("tests.harness.lane.daemon", daemons.start)
    with Lane() as lane:
        first, second = (do_both(client(), FAULTS["repeats when retried"], lane) for _ in range(2))

    assert (first.guarded.made, second.guarded.made, daemons.started) == (1, 1, 2)


@pytest.mark.process
def test_what_only_took_longer_is_done_again_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 40.0, 0.0, 1.0))

    def later(*_: object, **__: object) -> Ended:
        return replace(ended("done"), seconds=next(seconds))

    monkeypatch.setattr("tests.harness.cell.do_task", later)

    with Lane() as lane:
        assert do_both(client(), FAULTS["401"], lane).passed


def test_an_end_without_the_daemon_is_known_from_an_earlier_run_of_the_same_version() -> None:
    kept = Result("c", "401", "error", "done", True, True, None, "c 1", "2026-01-01", seconds=(3.0, 4.0))
    known = ended_before(kept, "c 1")

    assert known is not None
    assert (known.word, known.made, known.seconds) == ("error", 1, 3.0)
    assert ended_before(kept, "c 2") is None


def test_tasks_by_other_apis_are_counted_apart_and_a_fault_of_one_client_has_one_row() -> None:
    done = Result("codex", "none", "not served", "done", True, True, None, "codex 1", "2026-01-01")
    both = replace(done, client="c", direct="silent")
    results = {(cell.client, cell.mistake): cell for cell in (done, both, replace(done, mistake="patch in JSON"))}

    text = document(["c", "codex"], results, {}, "node 22")

    assert "Of 1 tasks, 0 were done without the proxy and 1 through it. Of 2 tasks by other APIs, 2 were done" in text
    assert "| codex | not served → done |" in text
    assert text.partition("## Patches")[2].count("\n| c |") == 0
    assert text.partition("## Mistakes")[2].partition("## Transport")[0].count("\n| c |") == 1


def test_results_are_kept_beside_earlier_ones_and_in_place_of_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.harness.results._FILE", tmp_path / "results.json")
    older: JsonDict = {
        "client": "c",
        "mistake": "text",
        "direct": "done",
        "guarded": "done",
        "occasion": True,
        "passed": True,
    }
    (tmp_path / "results.json").write_text(
        json.dumps([{**older, "lacks": None, "version": "c 1", "date": "2026-01-01"}])
    )
    new = Result("c", "401", "done", "done", True, True, None, "c 1", "2026-01-02", "abc", None, (1.0, 2.0))

    keep([new])
    keep([replace(new, guarded="error")])

    assert [(cell.mistake, cell.guarded, cell.seconds) for cell in kept().values()] == [
        ("text", "done", (0.0, 0.0)),
        ("401", "error", (1.0, 2.0)),
    ]


def test_the_list_of_worse_cells_names_each_with_what_is_worse() -> None:
    result = Result("c", "401", "done", "done", True, True, None, "c 1", "2026-01-01")

    assert list_worse([result]) == "Worse than without the proxy: none."
    assert "- c, 401: 40 s longer; done." in list_worse([result, replace(result, worse="40 s longer", passed=False)])
