"""One cell of the table: a client does its task once, with a faulty model or server, directly or through the daemon."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.backend import Exchange, ScriptedModel
from tests.harness.client import Client, Place
from tests.harness.fault import Fault
from tests.harness.lane import Lane
from tests.harness.results import Result, commit, today
from tests.harness.running import Ran, run
from tests.harness.tasks import JsonDict

SECONDS = 120.0
"""Time limit of a client: many times what it needs, including its retries."""
LONGER = 30.0
"""A client that takes this many more seconds through the daemon is worse than one that fails at once."""
NOT_SERVED = "not served"
"""The result of a client that cannot work without the daemon, because the scripted server does not speak its API."""
_BEST_FIRST = ("done", "error", "silent", "hangs", NOT_SERVED)


@dataclass(frozen=True)
class Ended:
    """How a client ended. `lacks` is the part of its task that was not done, `made` how often the fault was made."""

    lacks: str | None
    made: int
    ran: Ran
    exchanges: list[JsonDict]
    """The requests to the model server and its responses."""
    seconds: float = 0.0
    is_served: bool = True

    @property
    def word(self) -> str:
        """`done`, or how the task failed: `silent` is an end without an error."""
        if not self.is_served:
            return NOT_SERVED
        if self.lacks is None:
            return "done"
        if self.ran.code is None:
            return "hangs"
        return "error" if self.ran.code else "silent"


@dataclass(frozen=True)
class Both:
    """A cell: the same task without and through the daemon."""

    client: Client
    fault: Fault
    direct: Ended
    guarded: Ended

    @property
    def worse(self) -> str | None:
        """What is worse through the daemon; None if nothing is."""
        if _BEST_FIRST.index(self.guarded.word) > _BEST_FIRST.index(self.direct.word):
            return f"{self.direct.word} → {self.guarded.word}"
        longer = self.guarded.seconds - self.direct.seconds
        return f"{longer:.0f} s longer" if longer > LONGER and self.direct.is_served else None

    @property
    def passed(self) -> bool:
        """Whether the client did as well through the daemon, and did the task if the daemon has to correct the fault.

        A client that offers no tools passes through unchanged, with the same end. A client that does not retry reports
        the failure of a server.
        """
        is_reported = self.fault.is_failure and not self.client.retries_errors and self.guarded.word == "error"
        is_done = self.guarded.lacks is None or is_reported
        is_same = not self.client.offers_tools and self.direct.word == self.guarded.word
        return self.worse is None and (is_done or is_same or not self.fault.must_be_done)

    def result(self) -> Result:
        """Return the fields that are stored."""
        made = self.direct.made or self.guarded.made or self.fault.has_occasion
        return Result(
            client=self.client.name,
            mistake=self.fault.name,
            direct=self.direct.word,
            guarded=self.guarded.word,
            occasion=bool(made),
            passed=self.passed,
            lacks=self.guarded.lacks,
            version=self.client.package.version(),
            date=today(),
            commit=commit(),
            worse=self.worse,
            seconds=(round(self.direct.seconds, 1), round(self.guarded.seconds, 1)),
        )


def do_both(client: Client, fault: Fault, lane: Lane, direct: Ended | None = None) -> Both:
    """Let an installed client do its task twice, or only through the daemon if the end without it is known.

    A task that failed with a daemon that was used before, or only took longer, is repeated with a new daemon, and that
    result counts. The same holds for a fault without an occasion: a daemon that has learned that a model's text is an
    answer retries no text.
    """
    was_used = lane.has_daemon
    direct = direct or do_task(client, fault, lane, through_daemon=False)
    both = Both(client, fault, direct, do_task(client, fault, lane, through_daemon=True))
    if not both.passed and (was_used or both.direct.word == both.guarded.word):
        lane.end_daemon()
        direct = do_task(client, fault, lane, through_daemon=False)
        both = Both(client, fault, direct, do_task(client, fault, lane, through_daemon=True))
    if was_used and both.guarded.lacks is None and not (direct.made or both.guarded.made):
        lane.end_daemon()
        both = Both(client, fault, direct, do_task(client, fault, lane, through_daemon=True))
    if fault.is_remembered or not both.passed:
        lane.end_daemon()
    return both


def ended_before(result: Result, version: str) -> Ended | None:
    """Return the stored end without the daemon; None if it is of another version or lacks a field."""
    if result.version != version or not result.seconds[0]:
        return None
    lacks = None if result.direct == "done" else "as before"
    code = {"done": 0, "silent": 0, "error": 1, "hangs": None, NOT_SERVED: None}[result.direct]
    return Ended(lacks, int(result.occasion), Ran(code, ""), [], result.seconds[0])


def do_task(client: Client, fault: Fault, lane: Lane, *, through_daemon: bool) -> Ended:
    """Let an installed client do its task."""
    if not (through_daemon or client.is_served_directly):
        return Ended("the server does not speak its API", 0, Ran(None, ""), [], is_served=False)
    url = lane.daemon_url() if through_daemon else lane.server.url
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        work = home / "work"
        work.mkdir()
        task = client.task(work)
        task.prepare()
        with lane.server.serving(ScriptedModel(task, fault)) as model:
            place = Place(home, work, task.prompt, f"{url}/v1")
            begun = time.monotonic()
            ran = run(client.start(place), home, work, SECONDS)
            seconds = time.monotonic() - begun
        return Ended(task.lacks(ran.printed), model.made, ran, _readable(model.exchanges), seconds)


def _readable(exchanges: Sequence[Exchange]) -> list[JsonDict]:
    return [
        {
            "asked": exchange.asked,
            "said": json.loads(exchange.said.as_whole()) if exchange.said.status == 200 else exchange.said.status,
            "status": exchange.response.status,
            "sent": b"".join(exchange.response.pieces).decode(errors="replace")[:100_000],
        }
        for exchange in exchanges
    ]
