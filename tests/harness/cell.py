"""One cell of the table: a client does its task once, with a model that makes one mistake, directly or through us."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.processes import daemon
from tests.harness.backend import ScriptedModel
from tests.harness.client import Client, Place
from tests.harness.mistakes import PLAIN, RIGHT
from tests.harness.results import Result, today
from tests.harness.running import Ran, run
from tests.harness.tasks import JsonDict

SECONDS = 120.0
"""How long a client may take: many times what it needs, its own retries included."""


@dataclass(frozen=True)
class Ended:
    """How a client ended. `lacks` says what of its task was not done, `made` how often the mistake was made."""

    lacks: str | None
    made: int
    ran: Ran
    exchanges: list[JsonDict]
    """What the model server was asked and what it said."""

    @property
    def word(self) -> str:
        """`done`, or the way in which it was not: `silent` is an end without an error."""
        if self.lacks is None:
            return "done"
        if self.ran.code is None:
            return "hangs"
        return "error" if self.ran.code else "silent"


@dataclass(frozen=True)
class Both:
    """A cell: the same without us and through us."""

    client: Client
    mistake: str
    direct: Ended
    guarded: Ended

    @property
    def passed(self) -> bool:
        """Whether the task was done through us; of a client that offers no tools, whether we spoiled nothing."""
        return self.guarded.lacks is None or (not self.client.offers_tools and self.direct.word == self.guarded.word)

    def result(self) -> Result:
        """What is kept of it."""
        made = self.direct.made or self.guarded.made or self.mistake in (RIGHT, PLAIN)
        return Result(
            client=self.client.name,
            mistake=self.mistake,
            direct=self.direct.word,
            guarded=self.guarded.word,
            occasion=bool(made),
            passed=self.passed,
            lacks=self.guarded.lacks,
            version=self.client.package.version(),
            date=today(),
        )


def do_both(client: Client, mistake: str) -> Both:
    """Let an installed client do its task twice."""
    direct = do_task(client, mistake, through_daemon=False)
    return Both(client, mistake, direct, do_task(client, mistake, through_daemon=True))


def do_task(client: Client, mistake: str, *, through_daemon: bool) -> Ended:
    """Let an installed client do its task."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        work = home / "work"
        work.mkdir()
        task = client.task(work)
        task.prepare()
        model = stack.enter_context(ScriptedModel(task, mistake))
        url = model.url
        if through_daemon:
            url = stack.enter_context(daemon("--backend", "openai", "--backend-url", model.url)).url
        place = Place(home, work, task.prompt, f"{url}/v1")
        ran = run(client.start(place), home, work, SECONDS)
        said = [{"asked": body, "said": _as_json(said.as_whole(), said.status)} for body, said in model.exchanges]
        return Ended(task.lacks(ran.printed), model.made, ran, said)


def _as_json(whole: bytes, status: int) -> JsonDict:
    return json.loads(whole) if status == 200 else {"status": status}
