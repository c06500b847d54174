"""A process of the workshop. Started by `workshop.py` as `python -m`, never imported by it.

Reads pieces of work from stdin, each a pickled callable, and answers on stdout with the length of what came of it and
then that, pickled. Ends when stdin closes: that happens by itself when the parent dies, kill -9 included.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from types import TracebackType

from forge_proxy.engine.parent_death import end_with_parent

_LONGEST = 60
"""Seconds after which work ends the process. The parent is far less patient; this is for one that is gone."""


def main() -> None:
    """Work until the parent is gone."""
    end_with_parent()
    for told in (signal.SIGINT, signal.SIGTERM):  # these are for the daemon, which still answers what it has begun
        signal.signal(told, signal.SIG_IGN)
    sys.excepthook = _say_where
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that is printed gets among the answers
    while True:
        try:
            work: Callable[[], object] = pickle.load(sys.stdin.buffer)  # noqa: S301  from our own parent
        except EOFError:
            return
        signal.alarm(_LONGEST)
        answer = pickle.dumps(work())
        signal.alarm(0)
        answers.write(len(answer).to_bytes(8) + answer)
        answers.flush()


def _say_where(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """What is printed when work fails: no more than the place, for a message may hold what a model wrote."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    sys.stderr.write(f"forge-proxy workshop: {kind.__name__} at {place}\n")


if __name__ == "__main__":
    main()
