"""A client as a row of the table: where it comes from, how it is started, and which task it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.harness.packages import Npm, Venv
from tests.harness.running import Command
from tests.harness.tasks import ReadThenWrite, Task

PROGRAMS = Path(__file__).with_name("programs")
_STAY_HERE = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Otherwise they talk to servers of their makers as well, and wait for them."""


@dataclass(frozen=True)
class Place:
    """Where a client runs once: its home, the folder it works in, the task's words, and the base URL with `/v1`."""

    home: Path
    work: Path
    prompt: str
    url: str


@dataclass(frozen=True)
class Client:
    """A row. `start` puts the settings in place and says what to run."""

    name: str
    package: Venv | Npm
    start: Callable[[Place], Command]
    task: type[Task] = ReadThenWrite
    offers_tools: bool = True
    """Whether it sends tools at all: requests without tools pass through us unchanged."""


def program(package: Venv, file: str, *modes: str, task: type[Task] = ReadThenWrite) -> tuple[Client, ...]:
    """Rows for a program of ours that uses an SDK from PyPI, one for each of its modes."""

    def row(mode: str) -> Client:
        def start(place: Place) -> Command:
            words = (package.python, PROGRAMS / file, mode, place.url, place.prompt)
            return Command(words, {"PATH": package.path, **_STAY_HERE})

        return Client(f"{package.name}, {mode}" if len(modes) > 1 else package.name, package, start, task)

    return tuple(row(mode) for mode in modes)
