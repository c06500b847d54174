"""`make attack ARGS="--only backend"`: run the attacks and print the table. Fails if one of them succeeds.

Everything happens on loopback, against processes that this program starts and ends.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from tests.attack import backend, callbacks, client_apis, faults, front_door, limits, load, secrets, tools, traces
from tests.attack.attack import Attack, Drill, Result
from tests.attack.measuring import run_attack, run_drill
from tests.attack.table import render, write_into
from tests.attack.target import target

_MODULES = (front_door, client_apis, backend, load, faults, limits, tools, callbacks, secrets, traces)


def all_attacks() -> list[Attack | Drill]:
    """Every attack, group by group."""
    return [attack for module in _MODULES for attack in module.ATTACKS]


def main() -> int:
    """Run the attacks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="only attacks whose `group: name` holds this; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--write", type=Path, help="also replace the rows of the table in this page")
    options = parser.parse_args()
    wanted: Sequence[str] = options.only or [""]
    attacks = [one for one in all_attacks() if any(word in f"{one.group}: {one.name}" for word in wanted)]
    if options.list:
        print("\n".join(f"{attack.group}: {attack.name}" for attack in attacks))
        return 0
    results = [result for batch in _batches(attacks) for result in _run(batch)]
    date = datetime.now(UTC).date().isoformat()
    print(f"\n{render(results, date)}\n")
    if options.write:
        write_into(options.write, results, date, all_attacks())
    failed = [result for result in results if not result.held]
    print(f"{len(results)} attacks, {len(failed)} succeeded")
    return 1 if failed or not results else 0


def _batches(attacks: Sequence[Attack | Drill]) -> list[list[Attack] | Drill]:
    """Attacks in a row that can share a daemon, and drills one by one."""

    def key(attack: Attack | Drill) -> object:
        if isinstance(attack, Drill):
            return attack.name
        return attack.group, attack.server, dict(attack.settings), attack.descriptors

    batches: list[list[Attack] | Drill] = []
    for _, same in groupby(attacks, key):
        together = list(same)
        batches += [one for one in together if isinstance(one, Drill)]
        if sharing := [one for one in together if isinstance(one, Attack)]:
            batches.append(sharing)
    return batches


def _run(batch: list[Attack] | Drill) -> list[Result]:
    """Run attacks that share a daemon, one after the other; after one that succeeds the next gets a new daemon."""
    if isinstance(batch, Drill):
        return [_told(run_drill(batch))]
    results: list[Result] = []
    waiting = list(batch)
    while waiting:
        first = waiting[0]
        with target(first.settings, server=first.server, descriptors=first.descriptors) as running:
            while waiting:
                results.append(_told(run_attack(waiting.pop(0), running)))
                if not results[-1].held:
                    break
    return results


def _told(result: Result) -> Result:
    """The result, after it was printed."""
    attack = result.attack
    print(f"{attack.group}: {attack.name}: {result.breach or 'held'} ({result.seconds:.1f} s)", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
