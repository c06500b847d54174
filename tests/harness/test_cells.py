"""What the harness says of a client is so: one that only says that it has done its task has not done it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.backend import ScriptedModel
from tests.harness.cell import Both, Ended, do_task
from tests.harness.client import Client
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
    ended = do_task(client("echo", ReadThenWrite.answer, task=task), "none", through_daemon=False)

    assert ended.lacks is not None
    assert ended.word == "silent"


def test_a_client_that_does_not_end_is_ended(tmp_path: Path) -> None:
    assert run(Command(("sh", "-c", "sleep 600 & wait")), tmp_path, tmp_path, 0.1).code is None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_at_each_point_the_second_answer_is_right(tmp_path: Path, mistake: str) -> None:
    task = ReadThenWrite(tmp_path)
    task.prepare()
    messages: list[JsonDict] = [{"role": "user", "content": task.prompt}]
    with ScriptedModel(task, mistake) as model:
        model.say({"messages": messages, "tools": TOOLS})
        assert model.say({"messages": messages, "tools": TOOLS}).calls == (
            ("read", f'{{"filePath": "{tmp_path / "hello.py"}"}}'),
        )
        messages.append({"role": "tool", "content": (tmp_path / "hello.py").read_text()})
        model.say({"messages": messages, "tools": TOOLS})
        assert model.say({"messages": messages, "tools": TOOLS}).calls[0][0] == "write"
        (tmp_path / "greeting.txt").write_text(task.greeting)
        messages.append({"role": "tool", "content": "written"})
        model.say({"messages": messages, "tools": TOOLS})
        assert model.say({"messages": messages, "tools": TOOLS}).text == task.answer

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
    silent = Ended("hello.py not read", 1, Ran(0, ""), [])

    assert Both(replace(client(), offers_tools=offers_tools), "empty", silent, silent).passed is passed
