"""The openai SDK for Node.js: streams in a plain loop, its streaming helper, and its tool runner."""

from __future__ import annotations

from tests.harness.client import PROGRAMS, Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command

_PACKAGE = Npm("openai-node", "openai")


def _row(mode: str) -> Client:
    def start(place: Place) -> Command:
        words = ("node", PROGRAMS / "openai_node.mjs", _PACKAGE.folder, mode, place.url, place.prompt)
        return Command(words, {"PATH": _PACKAGE.path})

    return Client(f"openai-node, {mode}", _PACKAGE, start)


ROWS = tuple(_row(mode) for mode in ("stream", "helper", "runTools"))
