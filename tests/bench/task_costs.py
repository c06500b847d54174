"""`python -m tests.bench.task_costs [--rounds N] [--files N]`: what a task costs without its model and its checks.

A planned task of ten steps runs in this process on a repository of 5,000 files in one pack, as `git clone` leaves it,
with real git and a real store; the model answers at once, and every check passes at once. It is compared with what a
person would have git do for the same ten commits in a checkout of the same repository: `git add` and `git commit`.
Part of `make bench`.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from forge_proxy.core.jobs.records import JobEvent
from forge_proxy.core.tasks.findings import Baseline, ValidationResult
from forge_proxy.git.program import GitProgram
from forge_proxy.processes.program import ProgramOutput
from forge_proxy.tasks.ports import CheckRequest
from tests.bench.report import print_figure
from tests.fakes.repository import UserRepository, create_repository
from tests.tasks.conftest import FakeChecks, open_world

FILES, STEPS, ROUNDS = 5000, 10, 3
TASK_SECONDS, CONTEXT_MS = 3, 200
"""Limits: orchestration of the whole task, and the context of a step."""
_FOLDER_FILES = 50


@dataclass(frozen=True, slots=True)
class TaskCosts:
    """What one task has cost."""

    seconds: float
    """From its submission to the review."""
    cpu: float
    """Seconds of the processors, in this process and in git."""
    phases: dict[str, list[float]]
    """Seconds until an event, since the event before it, by its type: the time of a phase with its storing."""
    programs: Counter[str]
    """How often each command of git was started."""
    by_hand: float
    """Seconds of the same commits by a person."""
    by_hand_cpu: float


class NoChecks(FakeChecks):
    """Checks that cost nothing."""

    async def fix(self, request: CheckRequest) -> None: ...

    async def record_baseline(self, request: CheckRequest) -> Baseline:
        return Baseline()

    async def run(self, request: CheckRequest, baseline: Baseline) -> Sequence[ValidationResult]:
        return [ValidationResult("lint", True)]


class CountedGit:
    """Counts the commands of git while it is open."""

    def __init__(self) -> None:
        self.programs: Counter[str] = Counter()
        self._run = GitProgram.run

    def __enter__(self) -> CountedGit:
        async def run(program: GitProgram, *arguments: str, **options: Any) -> ProgramOutput:
            self.programs[arguments[0]] += 1
            return await self._run(program, *arguments, **options)

        setattr(GitProgram, "run", run)  # noqa: B010
        return self

    def __exit__(self, *_: object) -> None:
        setattr(GitProgram, "run", self._run)  # noqa: B010


def make_files(count: int) -> dict[str, str | bytes]:
    """Return the files of a repository: modules of a few lines in folders of fifty."""
    names = (f"src/package_{number // _FOLDER_FILES}/module_{number}.py" for number in range(count))
    modules = {name: f'"""Module {name}."""\n\n\ndef value() -> int:\n    return {len(name)}\n' for name in names}
    return {**modules, "AGENTS.md": "Use type hints.\n"}


def plan_rules(steps: int) -> list[dict[str, Any]]:
    """Return the script of a plan whose steps change a file and create one."""
    planned = [
        {"id": f"step-{number}", "description": f"Write part {number}.", "capability_tier": "generation",
         "target_files": [_changed(number), f"new_{number}.py"],
         "context_files": [f"src/package_9/module_{450 + number}.py"]}
        for number in range(steps)
    ]  # fmt: skip
    plan = {"when": {"operation": "plan"}, "respond": {"explanation": "", "steps": planned}}
    written = [
        {"when": {"step": f"step-{number}"}, "respond": {
            "files": [{"path": f"new_{number}.py", "content": f"part = {number}\n"}],
            "edits": [{"path": _changed(number), "edits": [{"search": "value()", "replace": f"value_{number}()"}]}],
        }}
        for number in range(steps)
    ]  # fmt: skip
    return [plan, *written]


def _changed(number: int) -> str:
    return f"src/package_{number}/module_{number * _FOLDER_FILES}.py"


async def measure_task(folder: Path, files: int, steps: int = STEPS) -> TaskCosts:
    """Run one task on a new repository, and make its commits by hand."""
    source = create_repository(folder / "source", make_files(files))
    source.git("clone", "-q", "--no-local", str(source.path), str(folder / "repository"))
    async with open_world(folder, *plan_rules(steps), checks=NoChecks()) as world:
        with CountedGit() as counted:
            began, used = time.perf_counter(), _cpu_seconds()
            await world.submit(plan=True, target_files=[])
            async for event in world.tasks.follow_events("total"):  # as the command line watches it
                if event.type in ("awaiting_merge", "halted"):
                    break
            seconds, cpu = time.perf_counter() - began, _cpu_seconds() - used
        done = await world.tasks.get("total")
        assert len(done.state.step_commits) == steps, done.state.halt
        by_hand = await asyncio.to_thread(_commit_by_hand, world.repository, folder / "by-hand", steps)
        return TaskCosts(seconds, cpu, _phase_seconds(await world.events()), counted.programs, *by_hand)


def _cpu_seconds() -> float:
    """Return the seconds that this process and its children have used the processors."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _commit_by_hand(repository: UserRepository, checkout: Path, steps: int) -> tuple[float, float]:
    """Have git make the commits of the task in a new worktree. Return the seconds, and those of the processors."""
    began, used = time.perf_counter(), _cpu_seconds()
    repository.git("worktree", "add", "-q", "--detach", str(checkout))
    for number in range(steps):
        changed = checkout / _changed(number)
        changed.write_text(changed.read_text().replace("value()", f"value_{number}()"))
        (checkout / f"new_{number}.py").write_text(f"part = {number}\n")
        repository.git("add", "--all", cwd=checkout)
        repository.git("commit", "-q", "-m", f"Write part {number}.", cwd=checkout)
    return time.perf_counter() - began, _cpu_seconds() - used


def _phase_seconds(events: Sequence[JobEvent]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for before, event in pairwise(events):
        found.setdefault(event.type, []).append(event.at - before.at)
    return found


def run(rounds: int, files: int) -> None:
    """Measure and print."""
    print(f"\nA planned task of {STEPS} steps on a repository of {files:,} files, medians of {rounds}", flush=True)
    # Nothing is deleted until the end: ext4 searches long for an inode if many were deleted in the last seconds.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        costs = [asyncio.run(measure_task(Path(folder, str(number)), files)) for number in range(rounds)]
    contexts = [1e3 * seconds for one in costs for seconds in one.phases["assembled"][2:]]
    print_figure("orchestration, without model and checks", median(one.seconds for one in costs), "s", TASK_SECONDS)
    print_figure("context of a step, warm", median(contexts), "ms", CONTEXT_MS)
    times = median(one.seconds / one.by_hand for one in costs)
    cpu_times = median(one.cpu / one.by_hand_cpu for one in costs)
    used = median(one.cpu for one in costs)
    print(f"  {times:.2f} times as long as the same commits by hand; CPU: {used:.2f} s, {cpu_times:.2f} times as much")
    programs = costs[-1].programs
    print(
        f"  git was started {programs.total()} times: {', '.join(f'{n} {name}' for name, n in programs.most_common())}"
    )
    phases = {name: median(sum(one.phases.get(name, [])) for one in costs) for name in costs[-1].phases}
    print("  seconds until " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in phases.items()))


def main() -> None:
    """Run the benchmark alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--files", type=int, default=FILES)
    chosen = parser.parse_args()
    run(chosen.rounds, chosen.files)


if __name__ == "__main__":
    main()
