"""The command line: serve, demo, check, rescue, evals, and the commands that query a running daemon."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """The entry point of the `forge-proxy` command. Imports are local, because they take most of a second."""
    _open_standard_streams()
    handler = signal.getsignal(signal.SIGINT)
    try:
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to clean up yet: exit without a traceback
        from forge_proxy.cli.app import run_app

        signal.signal(signal.SIGINT, handler)
        run_app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _open_standard_streams() -> None:
    """Open closed standard streams; otherwise the next socket gets their descriptor and receives log output."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # kept open


__all__ = ["main"]
