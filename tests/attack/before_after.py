"""`python -m tests.attack.before_after --before FOLDER`: the table of faults before and after.

FOLDER is a checkout of an earlier commit (`git worktree add --detach FOLDER 494227b`). The same attacks run against its
daemon and against the one of this checkout. Each daemon may use 6 GB of address space, 60 s of CPU and 100 s for each.
"""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from tests.attack.checkout import Checkout, Outcome
from tests.attack.minor_repros import MINOR_REPROS
from tests.attack.repros import REPROS, Repro, weak_validator
from tests.fakes.processes import ROOT

_BEGIN, _END = "<!-- before and after: begin -->", "<!-- before and after: end -->"
_HEAD = (
    "| fault | repro | before: CPU s, memory MB, longest wait ms | outcome | after: CPU s, memory MB, longest wait ms"
    " | outcome |\n| --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    """Run the reproductions in both checkouts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the commit to compare with")
    parser.add_argument("--only", action="append", help="only this fault, such as 3 or 3a; may be repeated")
    parser.add_argument(
        "--validator", type=Path, help="a folder with jsonschema-rs 0.40 (`pip install --target`), for fault 4"
    )
    parser.add_argument("--write", type=Path, help="also replace the table in this page")
    options = parser.parse_args()
    repros = [*REPROS, *MINOR_REPROS]
    if options.validator:
        run = partial(_with_packages, options.validator.resolve())
        repros.insert(4, Repro("4", "a call that breaks its schema, with jsonschema-rs 0.40", run))
    checkouts = [Checkout(folder.resolve()) for folder in (options.before, ROOT)]
    rows: list[str] = []
    for repro in repros:
        if not options.only or any(
            repro.fault.rstrip("abcdefghij") == one or repro.fault == one for one in options.only
        ):
            rows.append(_row(repro, [_run(repro, checkout) for checkout in checkouts]))
            print(rows[-1], flush=True)
    table = "\n".join([_HEAD, *rows])
    print(f"\n{table}")
    if options.write:
        _write_into(options.write, table)


def _with_packages(packages: Path, checkout: Checkout) -> Outcome:
    return weak_validator(checkout.with_packages(packages))


def _run(repro: Repro, checkout: Checkout) -> Outcome:
    try:
        return repro.run(checkout)
    except Exception as exc:  # noqa: BLE001  whatever it is, it goes into the table
        return Outcome(f"{type(exc).__name__}: {str(exc).partition(chr(10))[0]}")


def _row(repro: Repro, outcomes: list[Outcome]) -> str:
    cells = [cell for outcome in outcomes for cell in (_figures(outcome), outcome.text.replace("|", "\\|"))]
    return f"| {repro.fault} | {repro.what} | {' | '.join(cells)} |"


def _figures(outcome: Outcome) -> str:
    if outcome.growth_mb is None:
        return "–"
    wait = "–" if outcome.wait_ms is None else f"{outcome.wait_ms:,.0f}"
    return f"{outcome.cpu_seconds or 0:.1f}, +{outcome.growth_mb:,.0f}, {wait}"


def _write_into(page: Path, table: str) -> None:
    before, begin, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{page}: no line {_BEGIN}"
    assert end, f"{page}: no line {_END}"
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
