"""kill -9 of the daemon while it works on tasks: the same commits, no stored response requested again, nothing left
behind.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.fakes.postgres import Postgres
from tests.fakes.processes import Process
from tests.properties import sample
from tests.system.task_place import (
    SINGLE,
    JsonDict,
    Result,
    TaskPlace,
    submission,
    wait_for_event,
    write,
    write_all,
)

_SEEDS = [int(name) for name in os.environ.get("FORGE_TEST_SEEDS", "").split()]
"""FORGE_TEST_SEEDS="3 17" tries these again."""
_PATHS = ("shop/cart.py", "shop/tax.py")


@dataclass(frozen=True)
class Script:
    """Tasks, and what the model responds.

    Equal requests have equal responses: one that is sent again, because the daemon was killed, takes nothing away.
    """

    rules: tuple[JsonDict, ...]
    tasks: tuple[JsonDict, ...]
    seconds: float = 2.0
    """In which its random moments are: about as long as it takes."""


_SINGLE = (
    write("shop/cart.py", "ITEMS = undefined\n", step=None, is_retry=False),  # ruff has a finding
    write("shop/cart.py", "ITEMS = [1]\n", step=None, is_retry=True),
)


def _plan(*steps: JsonDict) -> JsonDict:
    return {"when": {"operation": "plan"}, "respond": {"explanation": "Divided.", "steps": [*steps]}}


_PLANNED = (
    _plan(
        {"id": "cart", "description": "Add an item.", "target_files": ["shop/cart.py"]},
        {"id": "tax", "description": "Change the rate.", "target_files": ["shop/tax.py"]},
    ),
    write("shop/cart.py", "ITEMS = undefined\n", step="cart", is_retry=False),
    write("shop/cart.py", "ITEMS = [1]\n", step="cart", is_retry=True),
    write("shop/tax.py", "RATE = 7\n", step="tax"),
)
_PARTS = {name: f"shop/{name}.py" for name in "abcd"}
_FAN_OUT = (
    _plan({
        "id": "parts",
        "description": "Write the parts.",
        "target_files": [*_PARTS.values(), "shop/tax.py"],
        "sub_tasks": [
            {"id": name, "description": f"Write the part {name}.", "target_files": [path]}
            for name, path in _PARTS.items()
        ],
    }),
    write(_PARTS["a"], "A = undefined\n", step="a", is_retry=False),
    write_all({_PARTS["a"]: "A = 1\n", "shop/tax.py": "RATE = 7\n"}, step="a", is_retry=True),
    write_all({_PARTS["b"]: "B = 1\n", "shop/tax.py": "RATE = 9\n"}, step="b"),  # a conflict with that of a
    write(_PARTS["c"], "C = 1\n", step="c"),
    write(_PARTS["d"], "D = 1\n", step="d"),
    {
        "when": {"operation": "resolve_conflicts"},
        "respond": {"files": [{"path": "shop/tax.py", "content": "RATE = 8\n"}]},
    },
)  # fmt: skip
_SCRIPTS = {
    "single": Script(_SINGLE, (SINGLE,)),
    "planned": Script(_PLANNED, (submission("t1", *_PATHS, plan=True),)),
    "fan-out": Script(_FAN_OUT, (submission("t1", *_PARTS.values(), "shop/tax.py", plan=True),), seconds=4.0),
    "turns": Script((*_SINGLE, *_PLANNED), (SINGLE, submission("t2", *_PATHS, plan=True))),
}
"""Of `turns`, the second task waits for the first one, which may write the same file."""
_MODES = ("single", "planned", "fan-out")
_MOMENTS = [*product(_SEEDS, _MODES)] or sample([*product(range(30), _MODES)], 43)
_POSTGRESQL_MOMENTS = [*product(_SEEDS, _MODES)] or sample([*product(range(10), _MODES)], 29)


def open_place(folder: Path, script: str, store: str | None = None) -> TaskPlace:
    return TaskPlace(folder, _SCRIPTS[script].rules, _SCRIPTS[script].tasks, store=store)


_UNDISTURBED: dict[str, tuple[Result, Counter[str]]] = {}


def undisturbed(script: str, folder: Path) -> tuple[Result, Counter[str]]:
    """Return what tasks leave that nobody disturbs, and what they ask for; computed once for each script."""
    if script not in _UNDISTURBED:
        place = open_place(folder / "undisturbed", script)
        with place.serve_model(), place.daemon() as proxy:
            place.submit(proxy)
            place.wait_for_all(proxy)
            _UNDISTURBED[script] = place.result(), place.asked()
            place.check_leftovers()
    return _UNDISTURBED[script]


def compare(place: TaskPlace, proxy: Process, script: str) -> None:
    """Wait for the end of the tasks, and compare them with undisturbed ones."""
    result, asked = undisturbed(script, place.folder)
    place.wait_for_all(proxy)
    assert place.result().commits == result.commits
    assert place.result().base == place.repository.head("main")
    place.check_requests(asked)
    place.check_leftovers()


_EVENTS = ("prepared", "baseline", "assembled", "called", "written", "validated", "committed")
_PART_EVENTS = ("prepared", "assembled", "called", "written", "validated", "attempt_ended", "returned")
_PHASES = [
    *product(("single", "planned"), ("t1",), _EVENTS, (1,)),
    ("planned", "t1", "planned", 1),
    ("single", "t1", "attempt_ended", 1),
    ("fan-out", "t1", "sub_tasks_started", 1),
    *product(("fan-out",), ("t1.sub.a",), _PART_EVENTS, (1,)),
    ("fan-out", "t1", "gathered", 1),
    *product(("fan-out",), ("t1",), ("assembled", "called"), (2,)),  # the first ones are those of the plan
    *product(("fan-out",), ("t1",), ("written", "validated", "committed"), (1,)),
    *product(("turns",), ("t2",), ("waiting_for", "admitted"), (1,)),
]
"""Events after which the daemon is killed: the script, the task, the event, and for which time."""


@pytest.mark.parametrize(("script", "task", "event", "number"), sample(_PHASES, 11))
def test_d3_killed_in_each_phase(script: str, task: str, event: str, number: int, tmp_path: Path) -> None:
    """The daemon is killed in the phase that follows the event."""
    place = open_place(tmp_path, script)
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            wait_for_event(proxy, event, number, task)
            place.kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script)


@pytest.mark.parametrize(("seed", "script"), _MOMENTS)
def test_d3_killed_at_random_moments_of_a_task(script: str, seed: int, tmp_path: Path) -> None:
    kill_at_random(open_place(tmp_path, script), script, seed)


@pytest.mark.parametrize(("seed", "script"), _POSTGRESQL_MOMENTS)
def test_d3_killed_at_random_moments_of_a_task_in_postgresql(
    script: str, seed: int, postgres_server: Postgres, tmp_path: Path
) -> None:
    kill_at_random(open_place(tmp_path, script, postgres_server.create_database()), script, seed)


def kill_at_random(place: TaskPlace, script: str, seed: int) -> None:
    """Kill the daemon while it works on a task, and the next one while it starts or continues."""
    chance = random.Random(seed)
    seconds = _SCRIPTS[script].seconds
    moments = [chance.uniform(0, seconds), chance.uniform(0, 0.75 * seconds)]
    print(f"seed {seed}: killed {moments[0]:.3f} s after it was submitted, and {moments[1]:.3f} s after listening")  # noqa: T201
    with place.serve_model():
        with place.daemon() as proxy:
            place.submit(proxy)
            time.sleep(moments[0])
            place.kill(proxy)
        with place.daemon() as proxy:
            time.sleep(moments[1])
            place.kill(proxy)
        with place.daemon() as proxy:
            compare(place, proxy, script)
