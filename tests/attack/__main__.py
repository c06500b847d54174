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

from tests.attack import backend, faults, front_door, load, secrets, tools
from tests.attack.attack import Attack, Result
from tests.attack.measuring import run_attack
from tests.attack.table import render, write_into
from tests.attack.target import target

_MODULES = (front_door, backend, load, faults, tools, secrets)


def all_attacks() -> list[Attack]:
    """Every attack, group by group."""
    return [attack for module in _MODULES for attack in module.ATTACKS]


def main() -> int:
    """Run them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="only attacks whose `group: name` holds this; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--write", type=Path, help="also replace the table in this page")
    options = parser.parse_args()
    wanted: Sequence[str] = options.only or [""]
    attacks = [one for one in all_attacks() if any(word in f"{one.group}: {one.name}" for word in wanted)]
    if options.list:
        print("\n".join(f"{attack.group}: {attack.name}" for attack in attacks))
        return 0
    results = [result for same in _batches(attacks) for result in _run(same)]
    print(f"\n{render(results)}\n")
    if options.write:
        write_into(options.write, results, datetime.now(UTC).date().isoformat())
    failed = [result for result in results if not result.held]
    print(f"{len(results)} attacks, {len(failed)} succeeded")
    return 1 if failed or not results else 0


def _batches(attacks: Sequence[Attack]) -> list[list[Attack]]:
    """Attacks in a row that can share a daemon."""

    def key(attack: Attack) -> tuple[object, ...]:
        return attack.group, attack.server, dict(attack.settings), attack.descriptors, attack.is_measured

    batches = [list(same) for _, same in groupby(attacks, key)]
    return [part for same in batches for part in ([same] if same[0].is_measured else [[one] for one in same])]


def _run(attacks: Sequence[Attack]) -> list[Result]:
    """Run attacks that share a daemon, one after the other; after one that succeeds the next gets a new daemon."""
    results: list[Result] = []
    waiting = list(attacks)
    while waiting:
        first = waiting[0]
        with target(first.settings, server=first.server, descriptors=first.descriptors) as running:
            while waiting:
                attack = waiting.pop(0)
                result = run_attack(attack, running)
                results.append(result)
                print(f"{attack.group}: {attack.name}: {result.breach or 'held'} ({result.seconds:.1f} s)", flush=True)
                if not result.held:
                    break
    return results


if __name__ == "__main__":
    sys.exit(main())
