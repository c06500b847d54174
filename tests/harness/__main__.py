"""`make harness ARGS="--only aider"`: real clients from PyPI and npm do a task, directly and through the daemon.

Their model is scripted, with a fault in its first response at each point of the conversation. Prints a table for each
group of faults, and the list of the cells that were worse through the daemon than without it. Fails if there is one, if
a required task was not done, or if something could not be run. Results are stored at once: an interrupted run is
continued with `--missing` or `--resume`.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.harness.cell import ended_before
from tests.harness.client import Client
from tests.harness.clients import CLIENTS
from tests.harness.fault import Fault
from tests.harness.faults import FAULTS, GROUPS
from tests.harness.packages import NODE, NotInstalled
from tests.harness.results import commit, kept
from tests.harness.run_cells import Cell, run_cells
from tests.harness.table import document, list_worse, render_groups


def main() -> int:
    """Install the clients, run every cell, print the tables; the exit code."""
    parser = _parser()
    options = parser.parse_args()
    clients = [client for client in CLIENTS if client.name.startswith(tuple(options.only or [""]))]
    if not clients:
        parser.error(f"no such client; there are {', '.join(client.name for client in CLIENTS)}")
    faults = chosen(options.mistake or [], options.faults or [])

    signal.signal(signal.SIGTERM, _leave)
    absent = install(clients)
    present = [client for client in clients if client.name not in absent]
    before = kept()
    cells: list[Cell] = []
    for client, fault in ((client, fault) for client in present for fault in faults):
        if not fault.concerns(client.name):
            continue
        known = before.get((client.name, fault.name))
        if known and (options.missing or (options.resume and known.commit == commit())):
            continue
        direct = ended_before(known, client.package.version()) if known and options.reuse_direct else None
        cells.append((client, fault, direct))
    results = run_cells(cells, options.jobs, options.keep)
    print(f"\n{render_groups([client.name for client in clients], faults, results, absent)}\n")
    if options.write:
        options.write.write_text(document([client.name for client in CLIENTS], kept(), absent, NODE.version()))
    failed = [result for result in results.values() if not result.passed]
    lost = len(cells) - len(results)
    print(list_worse(results.values()))
    print(f"{len(cells)} cells, {len(failed)} failed, {lost} not run, {len(absent)} clients not installed")
    return 1 if failed or lost or absent else 0


def chosen(names: Sequence[str], groups: Sequence[str]) -> list[Fault]:
    """Return the faults with these names and of these groups, in the table's order; all of them if none is named."""
    of_groups = {fault.name for group in groups for fault in GROUPS.get(group, NEW)}
    return [fault for fault in FAULTS.values() if not (names or groups) or fault.name in {*names, *of_groups}]


def install(clients: Sequence[Client]) -> dict[str, str]:
    """Install the clients. Return the reasons for those that cannot be installed."""
    absent: dict[str, str] = {}
    for client in clients:
        try:
            client.package.install()
        except NotInstalled as exc:
            absent[client.name] = str(exc)
            print(f"{client.name} not installed: {exc}")
    return absent


NEW = [fault for name, group in GROUPS.items() if name != "mistakes" for fault in group]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="only clients whose name begins so; may be repeated")
    parser.add_argument(
        "--mistake", action="extend", nargs="+", choices=FAULTS, metavar="FAULT", help="only these faults"
    )
    groups = [*GROUPS, "new"]
    parser.add_argument(
        "--faults", action="extend", nargs="+", choices=groups,
        help="only these groups of faults; 'new' is all but the mistakes of the model",
    )  # fmt: skip
    parser.add_argument("--missing", action="store_true", help="only what was never run")
    parser.add_argument("--resume", action="store_true", help="only what was not run with this commit")
    parser.add_argument(
        "--reuse-direct",
        action="store_true",
        help="only through the daemon, if the same client was run without it before",
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many clients run at a time (2)")
    parser.add_argument("--write", type=Path, help="also write the latest of all runs to this file")
    parser.add_argument("--keep", type=Path, help="a folder for what was asked, said and printed in failed cells")
    return parser


def _leave(*_: object) -> None:
    sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
