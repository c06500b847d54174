"""Tasks of each mode with what a scripted model responds, and what they leave if nobody disturbs them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tests.fakes.processes import Process
from tests.system.task_place import SINGLE, JsonDict, Result, TaskPlace, submission, write, write_all

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
SCRIPTS = {
    "single": Script(_SINGLE, (SINGLE,)),
    "batched": Script(_SINGLE, ({**SINGLE, "mode": "batch"},)),
    "planned": Script(_PLANNED, (submission("t1", *_PATHS, plan=True),)),
    "fan-out": Script(_FAN_OUT, (submission("t1", *_PARTS.values(), "shop/tax.py", plan=True),), seconds=4.0),
    "turns": Script((*_SINGLE, *_PLANNED), (SINGLE, submission("t2", *_PATHS, plan=True))),
}
"""Of `turns`, the second task waits for the first one, which may write the same file."""
MODES = ("single", "planned", "fan-out")
_EVENTS = ("prepared", "baseline", "assembled", "called", "written", "validated", "committed")
_PART_EVENTS = ("prepared", "assembled", "called", "written", "validated", "attempt_ended", "returned")
PHASES = [
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


def open_place(folder: Path, script: str, store: str | None = None) -> TaskPlace:
    return TaskPlace(folder, SCRIPTS[script].rules, SCRIPTS[script].tasks, store=store)


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
