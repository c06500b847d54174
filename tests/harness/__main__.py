"""`make harness ARGS="--only aider"`: real clients from PyPI and npm do a task, directly and through the daemon.

The model they talk to is scripted, and makes one mistake in its first answer at each point of the conversation. Prints
a table, client by mistake. Fails where a client did not do its task through the daemon.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.harness.cell import Both, do_both
from tests.harness.client import Client
from tests.harness.clients import CLIENTS
from tests.harness.mistakes import MISTAKES
from tests.harness.packages import NotInstalled
from tests.harness.results import Result, Results, keep, kept
from tests.harness.table import document, render


def main() -> int:
    """Install the clients, run every cell, print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="only clients whose name begins so; may be repeated")
    parser.add_argument("--mistake", action="append", choices=MISTAKES, help="only this mistake; may be repeated")
    parser.add_argument("--missing", action="store_true", help="only what was never run")
    parser.add_argument("--jobs", type=int, default=2, help="how many clients run at a time (2)")
    parser.add_argument("--write", type=Path, help="also write the latest of all runs to this file")
    parser.add_argument("--keep", type=Path, help="a folder for what was asked, said and printed in failed cells")
    options = parser.parse_args()
    clients = [client for client in CLIENTS if client.name.startswith(tuple(options.only or [""]))]
    mistakes = [mistake for mistake in MISTAKES if mistake in (options.mistake or MISTAKES)]
    if not clients:
        parser.error(f"no such client; there are {', '.join(client.name for client in CLIENTS)}")

    signal.signal(signal.SIGTERM, _leave)
    absent = install(clients)
    present = [client for client in clients if client.name not in absent]
    cells = [(client, mistake) for client in present for mistake in mistakes]
    if options.missing:
        cells = [(client, mistake) for client, mistake in cells if (client.name, mistake) not in kept()]
    results = run_cells(cells, options.jobs, options.keep)
    print(f"\n{render([client.name for client in clients], mistakes, results, absent)}\n")
    if options.write:
        everything = [client.name for client in CLIENTS]
        options.write.write_text(document(everything, MISTAKES, kept(), absent))
    failed = [result for result in results.values() if not result.passed]
    lost = len(cells) - len(results)
    print(f"{len(cells)} cells, {len(failed)} failed, {lost} not run, {len(absent)} clients not installed")
    return 1 if failed or lost or absent else 0


def install(clients: Sequence[Client]) -> dict[str, str]:
    """Install them; why those are absent that cannot be."""
    absent: dict[str, str] = {}
    for client in clients:
        try:
            client.package.install()
        except NotInstalled as exc:
            absent[client.name] = str(exc)
            print(f"{client.name} not installed: {exc}")
    return absent


def run_cells(cells: Sequence[tuple[Client, str]], jobs: int, folder: Path | None) -> Results:
    """Run them, some at a time; says and keeps each as soon as it is known. What cannot be run is no result."""
    results: dict[tuple[str, str], Result] = {}
    one_at_a_time = threading.Lock()

    def run_cell(client: Client, mistake: str) -> None:
        try:
            both = do_both(client, mistake)
        except AssertionError as exc:  # the daemon did not start
            print(f"{client.name:27} {mistake:14} not run: {exc}", flush=True)
            return
        with one_at_a_time:
            results[client.name, mistake] = result = both.result()
            keep([result])
            print(f"{client.name:27} {mistake:14} {result}", flush=True)
            if not result.passed:
                print(f"  FAILED: {result.lacks}, exit code {both.guarded.ran.code}", flush=True)
            if folder and not result.passed:
                keep_exchanges(folder, both)

    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_cell, *cell) for cell in cells]
        try:
            for done in running:
                done.result()
        except BaseException:  # those that run are let finish, so that nothing of theirs is left
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def keep_exchanges(folder: Path, both: Both) -> None:
    """What is needed to see why a cell failed."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{both.client.name}-{both.mistake}".replace(", ", "-").replace(" ", "-")
    for way, ended in (("direct", both.direct), ("guarded", both.guarded)):
        ran = {"code": ended.ran.code, "printed": ended.ran.printed}
        told = {"lacks": ended.lacks, **ran, "exchanges": ended.exchanges}
        (folder / f"{name}.{way}.json").write_text(json.dumps(told, indent=2))


def _leave(*_: object) -> None:
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
