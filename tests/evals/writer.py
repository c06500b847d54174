"""A program that writes runs until it is killed: `python -m tests.evals.writer FILE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from forge_proxy.evals.results import ResultsFile
from tests.evals.records import record

if __name__ == "__main__":
    file = ResultsFile(Path(sys.argv[1]))
    number = len(file.records)
    while True:
        file.add(record(run=number, detail="x" * 4000))
        os.write(1, b"%d\n" % number)
        number += 1
