"""Mutates the golden files and the seeds, and keeps the texts that violate a property.

python -m tests.fuzz --minutes 10 [--seed N]
"""

# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.checks import faults_of
from tests.fuzz.texts import mutated, seeds

_SEEDS = Path(__file__).parent / "seeds"
_MAX_SECONDS = 20


def main() -> int:
    """Run for the requested time. Return 1 if a failure was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    rng = random.Random(options.seed)
    signal.signal(signal.SIGALRM, _ring)
    known = seeds()
    print(f"seed {options.seed}: {len(known)} texts to begin with, {options.minutes:g} minutes")
    end = time.monotonic() + options.minutes * 60
    tried, bugs = 0, set[str]()
    while time.monotonic() < end and len(bugs) < 20:
        parts = mutated(rng, known)
        tried += 1
        if _breaks("".join(parts)):
            text = "".join(_smaller(parts, lambda some: _breaks("".join(some))))
            bugs.add(text)
            print(f"{text!r}: {_breaks(text)}", flush=True)
    for number, text in enumerate(sorted(bugs)):
        (_SEEDS / f"found-{options.seed}-{number}.txt").write_text(text, encoding="utf-8", newline="")
    print(f"{tried:,} texts, {len(bugs)} bugs")
    return 1 if bugs else 0


def _breaks(text: str) -> str:
    """What is wrong with a text, if anything; also that the work on it does not end."""
    signal.alarm(_MAX_SECONDS)
    try:
        return next(faults_of(text, random.Random(len(text))), "")
    except _Endless:
        return f"it takes more than {_MAX_SECONDS} s"
    except Exception as error:  # noqa: BLE001  # whatever it raises is what is looked for
        return f"raised {error!r}"
    finally:
        signal.alarm(0)


class _Endless(BaseException):
    """The alarm. Not an `Exception`, which the code under test may catch."""


def _ring(*_: object) -> None:
    raise _Endless


def _smaller(parts: list[str], breaks: Callable[[list[str]], str]) -> list[str]:
    """Return the parts without those that the failure does not need: whole ones first, then single characters."""
    for characters in (False, True):
        some = list("".join(parts)) if characters else list(parts)
        if characters and len(some) > 400:
            break
        at = 0
        while at < len(some):
            fewer = some[:at] + some[at + 1 :]
            if breaks(fewer):
                some = fewer
            else:
                at += 1
        parts = some
    return parts


if __name__ == "__main__":
    sys.exit(main())
