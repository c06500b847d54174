"""Change one expression of forge_proxy at a time, and run the tests that should fail.

python -m tests.mutants [--parts core|jobs|requests] [--seed N] [--count N] [--minutes M] [--only PATTERN]
                        [--tests NAMES]

Prints a table in Markdown, row by row. A mutant is killed if a test fails, or if the tests use more than 400 s of CPU
time; `--tests api,templates` runs these tests in place of those of the parts, for mutants that have survived. The
mutants of a seed stay the same as long as the mutated code does. The tests are collected once. Each mutant is a fork,
in which the code of one function is replaced.
"""

# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutation, find_mutations
from tests.mutants.replacing import replace_code

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "forge_proxy"
FIRST = {
    "core/rescue": ("core/rescue", "fuzz"),
    "core/guardrails": ("core/guardrails", "engine/test_attempt.py"),
    "core/compaction": ("core/compaction", "engine/test_fitting.py"),
    "core/stream.py": ("core/test_stream.py",),
    "core/budget.py": ("core/test_budget.py", "engine/test_budgets.py"),
    "core/jobs": ("core/jobs", "jobs", "workflows/runs"),
    "jobs": ("core/jobs", "jobs", "workflows/runs"),
    "core/requests": ("core/requests",),
    "engine/request_recorder.py": ("engine/test_request_recorder.py", "api/test_request_records.py"),
    "wire/multipart.py": ("wire/test_multipart.py",),
    "api/conversations.py": ("api/test_conversations.py",),
}
"""Each part of the package that is mutated, and the tests that run first."""
TURNS = {
    "core": (
        "core/rescue", "core/guardrails", "core/compaction", "core/rescue", "core/guardrails", "core/stream.py",
        "core/rescue", "core/guardrails", "core/budget.py",
    ),
    "jobs": ("core/jobs", "jobs", "jobs"),
    "requests": ("core/requests", "engine/request_recorder.py", "wire/multipart.py", "api/conversations.py"),
}  # fmt: skip
"""How the mutants are divided among the parts: roughly by size."""
FOLDERS = {
    "core": ("core", "engine", "fuzz"),
    "jobs": ("core/jobs", "jobs", "workflows/runs", "contracts/test_store.py", "api/admin/test_runs.py"),
    "requests": (
        "core/requests", "engine/test_request_recorder.py", "wire/test_multipart.py", "api/test_request_records.py",
        "api/test_conversations.py", "api/test_relay.py", "contracts/test_conversation_store.py",
    ),
}  # fmt: skip
"""The tests that run for the mutants of these parts."""
SLOW = ("test_cost.py", "test_total.py", "test_seeds.py")
_CPU_SECONDS = 400


@dataclass(frozen=True)
class Mutant:
    """One mutation of a file; `part` is a key of `FIRST`."""

    part: str
    file: Path
    mutation: Mutation

    def __str__(self) -> str:
        place = f"{self.file.relative_to(PACKAGE)}:{self.mutation.line}"
        return f"{place} | {_cell(self.mutation.before)} | {_cell(self.mutation.after)}"

    def install(self) -> None:
        """Replace the function in this process."""
        name = ".".join(self.file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        replace_code(sys.modules[name], self.mutation.apply(self.file.read_bytes()))


def choose_mutants(parts: str, seed: int, count: int) -> Iterator[Mutant]:
    """Yield mutants at random, the parts in turn."""
    rng = random.Random(seed)
    shuffled: dict[str, list[Mutant]] = {}
    turns = TURNS[parts]
    for part in dict.fromkeys(turns):
        files = [PACKAGE / part] if part.endswith(".py") else sorted((PACKAGE / part).rglob("*.py"))
        shuffled[part] = [Mutant(part, file, one) for file in files for one in find_mutations(file.read_bytes())]
        rng.shuffle(shuffled[part])
    for number in range(count):
        if remaining := shuffled[turns[number % len(turns)]]:
            yield remaining.pop()


class Mutating:
    """A pytest plugin that runs the collected tests once for each mutant, up to the first failure."""

    def __init__(self, mutants: Sequence[Mutant], seconds: float, storage: Path) -> None:
        self._mutants = mutants
        self._end = time.monotonic() + seconds
        self._storage = storage
        self._failed = ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for mutant in self._mutants:
            result = self._run(mutant, session.items) if time.monotonic() < self._end else "not run"
            print(f"| {mutant} | {result} |", flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid.removeprefix("tests/")

    def _run(self, mutant: Mutant, items: Sequence[pytest.Item]) -> str:
        """Return what killed it, or `survived`."""
        shutil.rmtree(self._storage, ignore_errors=True)  # no examples of the mutant before
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
            try:
                mutant.install()
                os.write(writing, self._first_failure(_ordered(mutant.part, items)).encode())
            except BaseException:  # noqa: BLE001  a fork never returns from here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            failed = pipe.read()
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            return "killed by CPU time"
        if status:
            return "not run: an error of this program"
        return f"killed by {_cell(failed)}" if failed else "survived"

    def _first_failure(self, items: Sequence[pytest.Item]) -> str:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        return self._failed


def _ordered(part: str, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests of the part, then the others. Nothing else uses core/rescue enough to run its tests for it."""

    def position(item: pytest.Item) -> tuple[bool, bool]:
        path = item.path.relative_to(ROOT / "tests").as_posix()
        return not path.startswith(FIRST[part]), item.path.name in SLOW

    kept = [item for item in items if part == "core/rescue" or item.path.parts[-2] not in ("rescue", "fuzz")]
    return sorted(kept, key=position)


def _cell(text: str) -> str:
    short = " ".join(text.split()).replace("|", "\\|")
    return f"`{short if len(short) <= 70 else short[:67] + '...'}`"


def main() -> None:
    """Run until the mutants or the minutes are used up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="core", choices=TURNS)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--count", type=int, default=54)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", default="", help="only mutants whose row matches this pattern")
    parser.add_argument("--tests", help="folders and files of tests, divided by commas")
    options = parser.parse_args()
    mutants = [
        one for one in choose_mutants(options.parts, options.seed, options.count) if re.search(options.only, str(one))
    ]
    tests = options.tests.split(",") if options.tests else FOLDERS[options.parts]
    with tempfile.TemporaryDirectory(prefix="forge-mutants-") as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.environ.setdefault("FORGE_TEST_EXAMPLES", "0.2")
        print("| mutant | before | after | result |\n|---|---|---|---|", flush=True)
        pytest.main(
            [
                *(
                    "-o",
                    "addopts=",
                    "-p",
                    "no:schemathesis",
                    "-p",
                    "no:xdist",
                    "-p",
                    "no:terminal",
                    "-p",
                    "no:cacheprovider",
                    "--hypothesis-seed=0",
                ),
                *("--tiers", "unit,app" if options.parts == "core" else "unit,app,process"),
                *(str(ROOT / "tests" / name) for name in tests),
            ],
            plugins=[Mutating(mutants, 60 * options.minutes, Path(folder) / "examples")],
        )


if __name__ == "__main__":
    main()
