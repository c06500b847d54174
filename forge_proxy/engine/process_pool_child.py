"""The program of a process of the process pool. `process_pool.py` starts it by `python -m` and never imports it.

Its argument is the parent's pid. Reads work items from stdin, each a pickled callable, and writes to stdout the length
of the pickled result and then the result. Ends when stdin closes, which also happens when the parent dies, even by
kill -9.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from types import TracebackType

from forge_proxy.processes.reaper import end_with_parent

_MAX_SECONDS = 60
"""Seconds after which work ends the process. The parent's limit is much shorter; this one is for a parent that died."""


def main() -> None:
    """Process work items until the parent ends."""
    end_with_parent(int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):  # for the daemon, which still completes its running requests
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = _print_location
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keeps printed text out of the results
    while True:
        try:
            work: Callable[[], object] = pickle.load(sys.stdin.buffer)  # noqa: S301  from the parent process
        except EOFError:
            return
        signal.alarm(_MAX_SECONDS)
        result = pickle.dumps(work())
        signal.alarm(0)
        results.write(len(result).to_bytes(8) + result)
        results.flush()


def _print_location(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Print only the location of a failure: an error's message may contain a model's output."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    sys.stderr.write(f"forge-proxy process pool: {kind.__name__} at {place}\n")


if __name__ == "__main__":
    main()
