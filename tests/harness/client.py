"""A client as a row of the table: its source, its command, and its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.setups import DaemonAddress
from forge_proxy.cli.connect.write import write
from tests.harness.backend import MODEL
from tests.harness.packages import Npm, Venv
from tests.harness.running import Command
from tests.harness.tasks import ReadThenWrite, Task

WINDOW = 131_072
PROGRAMS = Path(__file__).with_name("programs")
_STAY_HERE = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Variables without which clients also connect to servers of their makers, and wait for them."""


@dataclass(frozen=True)
class Place:
    """The environment of one run of a client: its home, its working folder, its prompt, and the base URL with `/v1`."""

    home: Path
    work: Path
    prompt: str
    url: str


@dataclass(frozen=True)
class Client:
    """A row. `start` writes the settings and returns the command."""

    name: str
    package: Venv | Npm
    start: Callable[[Place], Command]
    task: type[Task] = ReadThenWrite
    offers_tools: bool = True
    """Whether it sends tools at all: requests without tools pass through the daemon unchanged."""
    retries_errors: bool = True
    """Whether it retries by itself if the server fails. Otherwise its error is the right end."""
    is_served_directly: bool = True
    """Whether the scripted server speaks the client's API: it serves chat completions only."""


def connected(name: str, place: Place) -> None:
    """Configure a client as `connect` does."""
    for file in CLIENTS[name](DaemonAddress(place.url.removesuffix("/v1"), "none", MODEL, WINDOW)).files:
        write(file, place.home)


def program(
    package: Venv,
    file: str,
    *modes: str,
    task: type[Task] = ReadThenWrite,
    name: str | None = None,
    is_served_directly: bool = True,
    retries_errors: bool = True,
) -> tuple[Client, ...]:
    """Return the rows of a program in `programs` that uses an SDK from PyPI, one for each mode; `name` is that of the
    package by default.
    """
    name = name or package.name

    def row(mode: str) -> Client:
        def start(place: Place) -> Command:
            words = (package.python, PROGRAMS / file, mode, place.url, place.prompt)
            return Command(words, {"PATH": package.path, **_STAY_HERE})

        called = f"{name}, {mode}" if len(modes) > 1 else name
        client = Client(called, package, start, task)
        return replace(client, is_served_directly=is_served_directly, retries_errors=retries_errors)

    return tuple(row(mode) for mode in modes)
