"""What the harness says of a client is so: one that only says that it has done its task has not done it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.says import Said
from tests.harness.backend import ScriptedModel
from tests.harness.cell import Both, Ended, do_task
from tests.harness.client import Client
from tests.harness.faults import FAULTS
from tests.harness.lane import Lane
from tests.harness.mistakes import MISTAKES
from tests.harness.packages import NODE
from tests.harness.results import Result
from tests.harness.running import Command, Ran, run
from tests.harness.table import render
from tests.harness.tasks import EditFile, ExtractTwo, JsonDict, ReadThenWrite, Task

TOOLS: list[JsonDict] = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"filePath": {}, "content": {}}}}}
    for name in ("read", "write")
]


def client(*words: str, task: type[Task] = ReadThenWrite) -> Client:
    return Client("client", NODE, lambda _: Command(words), task)


@pytest.mark.parametrize("task", [ReadThenWrite, ExtractTwo, EditFile])
def test_a_client_that_only_says_that_it_is_done_has_not_done_it(task: type[Task]) -> None:
    with Lane() as lane:
        ended = do_task(client("echo", ReadThenWrite.answer, task=task), FAULTS["none"], lane, through_daemon=False)

    assert ended.lacks is not None
    assert ended.word == "silent"


def test_a_client_that_does_not_end_is_ended(tmp_path: Path) -> None:
    assert run(Command(("sh", "-c", "sleep 600 & wait")), tmp_path, tmp_path, 0.1).code is None


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
def test_an_end_that_says_less_or_comes_later_is_worse(direct: str, guarded: str, worse: bool) -> None:
    both = Both(client(), FAULTS["401"], ended(direct), ended(guarded))

    assert (both.worse is not None, both.passed) == (worse, not worse)


@pytest.mark.parametrize(("seconds", "passed"), [(29.0, True), (31.0, False)])
def test_the_same_end_much_later_is_worse(seconds: float, passed: bool) -> None:
    assert Both(client(), FAULTS["401"], ended("done"), replace(ended("done"), seconds=seconds)).passed is passed


def ended(word: str) -> Ended:
    code = {"done": 0, "silent": 0, "error": 1, "hangs": None}[word]
    return Ended(None if word == "done" else "hello.py not read", 1, Ran(code, ""), [])
