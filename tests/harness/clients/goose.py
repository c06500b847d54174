"""goose, the command line, by the configuration that `connect goose` writes."""

from __future__ import annotations

from tests.harness.client import Client, Place, connected
from tests.harness.packages import Npm
from tests.harness.running import Command
from tests.harness.tasks import ReadByShellThenWrite

_PACKAGE = Npm("goose", "@aaif/goose-acp")
"""It contains the program for this machine."""


def _start(place: Place) -> Command:
    connected("goose", place)
    words = (_PACKAGE.command, "run", "--no-session", "--with-builtin", "developer", "-t", place.prompt)
    return Command(words, {"PATH": _PACKAGE.path, "GOOSE_DISABLE_KEYRING": "1", "GOOSE_MODE": "auto"})


ROWS = (Client("goose", _PACKAGE, _start, ReadByShellThenWrite),)
