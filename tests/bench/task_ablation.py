"""`python -m tests.bench.task_ablation [--seeds N]`: what each part of a task contributes, with a spoiled model.

24 small tasks change one function each. A scripted model responds correctly, but one response in three is spoiled, by
a fault drawn at random: equal draws in each cell. A task is solved if hidden tests pass on its branch and nothing but
its file has changed. Real git, one worktree for each task; the checks run in this process. A cell is 24 tasks with N
seeds. What this cannot show: a real model repeats its faults, and reads findings; this one only draws again.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from forge_proxy.core.rates import Rate
from forge_proxy.core.tasks.edits import apply
from forge_proxy.core.tasks.edits.matching import NoMatch
from forge_proxy.core.tasks.findings import Baseline, Finding, ValidationResult
from forge_proxy.tasks.ports import CheckRequest
from tests.fakes.says import Said
from tests.fakes.task_model import TaskModel, TaskRequest, render
from tests.tasks.conftest import FakeChecks, World, open_world

SEEDS = 3
TASKS = 24
SPOILED = 1 / 3
PARTS = ("retries", "edit levels", "baseline", "scopes")
_FOUND_BEFORE = 3
"""One in this many files has a finding on the base branch."""
_PARALLEL = 4
_FAULTS = (
    "bad_json", "truncated", "elided", "empty", "unmatched", "trailing", "indentation", "fuzzy", "syntax", "wrong",
    "other_file",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SmallTask:
    """A function that returns something else than it should."""

    number: int

    @property
    def path(self) -> str:
        return f"module_{self.number:02}.py"

    @property
    def search(self) -> str:
        return f"    total = first + {self.number}   \n    return total * second\n"

    @property
    def replace(self) -> str:
        return f"    total = first - {self.number}\n    return total * second + 1\n"

    @property
    def source(self) -> str:
        known = "# BAD: known before\n" if self.number % _FOUND_BEFORE == 0 else ""
        return f"{known}def compute(first, second):\n{self.search}\n\ndef other(value):\n    return value\n"

    def passes(self, source: str, values: Sequence[tuple[int, int]]) -> bool:
        """Run tests: whether the function is right for these values."""
        names: dict[str, Any] = {}
        try:
            exec(source, names)  # what the script writes
            return all(names["compute"](one, two) == (one - self.number) * two + 1 for one, two in values)
        except Exception:  # noqa: BLE001  # whatever is wrong with it
            return False


_VISIBLE, _HIDDEN = ((0, 0), (1, 2)), ((3, 4), (-2, 5), (7, 0))


@dataclass
class SpoiledModel(TaskModel):
    """Answers each task, and spoils one response in three."""

    seed: int = 0
    helps_again: bool = True
    """Whether a correction or a request for failed edits is answered by another draw."""
    drawn: Counter[str] = field(default_factory=Counter[str])

    def answer(self, body: dict[str, Any]) -> Said:
        request = TaskRequest.read(body)
        text = "".join(str(message["content"]) for message in body["messages"])
        found = re.search(r"run (\d+) of module (\d+)", text)
        if request.operation == "other" or found is None:
            return Said("Hello.")
        is_same = request.operation in ("correction", "edits") and not self.helps_again
        self.drawn[found[0]] += not is_same
        draw = random.Random(f"{self.seed} {found[0]} {self.drawn[found[0]]}")
        fault = draw.choice(_FAULTS) if draw.random() < SPOILED else None
        return render(request, _rule(SmallTask(int(found[2])), fault))


def _rule(task: SmallTask, fault: str | None) -> dict[str, Any]:
    search, replace = task.search, task.replace
    files: list[dict[str, str]] = []
    match fault:
        case "trailing":
            search = search.replace("   \n", "\n")
        case "indentation":
            search, replace = (re.sub("^    ", "\t", text, flags=re.MULTILINE) for text in (search, replace))
        case "fuzzy":
            search = search.replace("total * second", "total * the_second")
        case "syntax":
            replace = replace.replace("second + 1", "(second + 1")
        case "wrong":
            replace = replace.replace("second + 1", "second + 2")
        case "other_file":
            files = [{"path": "setup_helper.py", "content": "created = True\n"}]
        case _:
            pass
    edits = [{"path": task.path, "edits": [{"search": search, "replace": replace}]}]
    return {"respond": deepcopy({"files": files, "edits": edits}), "fault": fault}


@dataclass
class AblationChecks(FakeChecks):
    """A lint that finds `BAD`, and tests with some of the values."""

    has_baseline: bool = True

    async def fix(self, request: CheckRequest) -> None: ...

    async def run(self, request: CheckRequest, baseline: Baseline) -> Sequence[ValidationResult]:
        lint = (await super().run(request, baseline if self.has_baseline else Baseline()))[0]
        failed = [
            Finding("tests", "compute is wrong", path)
            for path in request.files
            if (found := re.fullmatch(r"module_(\d+)\.py", path))
            and not SmallTask(int(found[1])).passes(_read(request, path), _VISIBLE)
        ]
        return [lint, ValidationResult("tests", not failed, findings=tuple(failed))]


def _read(request: CheckRequest, path: str) -> str:
    return Path(request.worktree.path, path).read_text()


@contextmanager
def _edit_levels(*, are_on: bool) -> Generator[None]:
    """Without the levels, an edit has to be exact."""
    find = apply.find_match

    def find_exact(text: str, search: str, replace: str) -> Any:
        match = find(text, search, replace)
        return match if match.level == "exact" else NoMatch("unmatched", "exact")

    setattr(apply, "find_match", find if are_on else find_exact)  # noqa: B010
    try:
        yield
    finally:
        setattr(apply, "find_match", find)  # noqa: B010


async def _run_task(world: World, number: int, run: int, parts: frozenset[str]) -> bool:
    """Return whether a task was solved."""
    task = SmallTask(number)
    task_id = f"t{number}-{run}"
    scope: dict[str, Any] = {} if "scopes" in parts else {"may_write": ["**"]}
    await world.submit(
        task_id=task_id, description=f"Correct it: run {run} of module {number:02}.", target_files=[task.path],
        max_attempts=2 if "retries" in parts else 1, **scope,
    )  # fmt: skip
    done = await world.wait("requires_action", "halted", "failed", task_id=task_id)
    if done.job.status != "requires_action":
        return False
    git = world.repository.git
    changed = git("diff", "--name-only", "main", f"forge/{task_id}").split()
    return changed == [task.path] and task.passes(git("show", f"forge/{task_id}:{task.path}"), _HIDDEN)


async def measure_cell(parts: frozenset[str], seeds: int) -> int:
    """Return how many tasks were solved."""
    model = SpoiledModel([], helps_again="retries" in parts)
    checks = AblationChecks(has_baseline="baseline" in parts)
    files: dict[str, str | bytes] = {SmallTask(number).path: SmallTask(number).source for number in range(TASKS)}
    slots = asyncio.Semaphore(_PARALLEL)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, _edit_levels(are_on="edit levels" in parts):
        async with open_world(Path(folder), files=files, checks=checks) as world:
            world.http.model = model.answer

            async def run_one(number: int, run: int) -> bool:
                async with slots:
                    return await _run_task(world, number, run, parts)

            runs = [run_one(number, run) for run in range(seeds) for number in range(TASKS)]
            return sum(await asyncio.gather(*runs))


def list_cells() -> Mapping[str, frozenset[str]]:
    """Return the cells: parts added one after the other, then each one removed alone."""
    added = {f"+ {part}": frozenset(PARTS[: at + 1]) for at, part in enumerate(PARTS)}
    removed = {f"all but {part}": frozenset(PARTS) - {part} for part in PARTS}
    return {"one attempt, nothing else": frozenset(), **added, **removed}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args().seeds
    print(f"| parts | solved of {seeds * TASKS} | 95 % |\n|---|---|---|")
    measured: dict[frozenset[str], int] = {}
    for name, parts in list_cells().items():
        if parts not in measured:
            measured[parts] = asyncio.run(measure_cell(parts, seeds))
        solved = measured[parts]
        interval = Rate(solved, seeds * TASKS).interval
        assert interval is not None
        share = f"{solved} ({solved / seeds / TASKS:.0%})"
        print(f"| {name} | {share} | {interval.low:.0%} to {interval.high:.0%} |", flush=True)


if __name__ == "__main__":
    main()
