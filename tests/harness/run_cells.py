"""Runs cells, several at a time, and reports and stores each result as soon as it is known."""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import json
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from tests.harness.cell import Both, Ended, do_both
from tests.harness.client import Client
from tests.harness.fault import Fault
from tests.harness.lane import Lane
from tests.harness.results import Result, Results, keep

Cell: TypeAlias = tuple[Client, Fault, Ended | None]
"""A client, a fault, and how the client ends without the daemon if that is known."""


def run_cells(cells: Sequence[Cell], jobs: int, folder: Path | None) -> Results:
    """Run them on `jobs` lanes. A cell that cannot be run has no result."""
    with ExitStack() as stack:
        running = _Running(len(cells), folder)
        lanes: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        for _ in range(jobs):
            lanes.put(stack.enter_context(Lane()))

        def run_cell(client: Client, fault: Fault, direct: Ended | None) -> None:
            lane = lanes.get()
            try:
                running.add(do_both(client, fault, lane, direct))
            except AssertionError as exc:  # the daemon did not start
                running.report_not_run(client, fault, exc)
                lane.end_daemon()
            finally:
                lanes.put(lane)

        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        futures = [pool.submit(run_cell, *cell) for cell in cells]
        try:
            for future in futures:
                future.result()
        except BaseException:  # running ones may finish, so that nothing of theirs is left
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return running.results


class _Running:
    """Print the results so far, with an estimate of the remaining time."""

    def __init__(self, cells: int, folder: Path | None) -> None:
        self.results: dict[tuple[str, str], Result] = {}
        self._cells = cells
        self._folder = folder
        self._seen = 0
        self._begun = time.monotonic()
        self._one_at_a_time = Lock()

    def add(self, both: Both) -> None:
        """Report and store a result."""
        with self._one_at_a_time:
            result = both.result()
            self.results[result.client, result.mistake] = result
            keep([result])
            direct, guarded = result.seconds
            self._report(both.client, both.fault, f"{result} ({direct:.0f} s, {guarded:.0f} s)")
            if not result.passed:
                why = f"worse, {result.worse}" if result.worse else "has to be done"
                print(f"  FAILED: {why}; {result.lacks}, exit code {both.guarded.ran.code}", flush=True)
            if self._folder and not result.passed:
                keep_exchanges(self._folder, both)

    def report_not_run(self, client: Client, fault: Fault, why: AssertionError) -> None:
        with self._one_at_a_time:
            self._report(client, fault, f"not run: {why}")

    def _report(self, client: Client, fault: Fault, what: str) -> None:
        self._seen += 1
        left = (time.monotonic() - self._begun) / self._seen * (self._cells - self._seen) / 60
        place = f"[{self._seen}/{self._cells}, about {left:.0f} min left]"
        print(f"{client.name:27} {fault.name:22} {what} {place}", flush=True)


def keep_exchanges(folder: Path, both: Both) -> None:
    """Store what is needed to see why a cell failed."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{both.client.name}-{both.fault.name}".replace(", ", "-").replace(" ", "-").replace("/", "-")
    for way, ended in (("direct", both.direct), ("guarded", both.guarded)):
        ran = {"code": ended.ran.code, "printed": ended.ran.printed}
        told = {"lacks": ended.lacks, **ran, "exchanges": ended.exchanges}
        (folder / f"{name}.{way}.json").write_text(json.dumps(told, indent=2))
