"""aider, which sends no tools: it requests whole files as text and writes them."""

from __future__ import annotations

from tests.harness.client import Client, Place
from tests.harness.packages import Venv
from tests.harness.running import Command
from tests.harness.tasks import EditFile

_PACKAGE = Venv("aider", ("aider-chat",))
_QUIETLY = ("--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-pretty", "--yes-always")


def _start(place: Place) -> Command:
    model = ("--model", "openai/scripted", "--openai-api-base", place.url, "--openai-api-key", "none")
    words = ("-m", "aider", *model, *_QUIETLY, "--no-git", "--map-tokens", "0", "--message", place.prompt, "hello.py")
    env = {"PATH": _PACKAGE.path, "AIDER_ANALYTICS": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Command((_PACKAGE.python, *words), env)


ROWS = (Client("aider", _PACKAGE, _start, EditFile, offers_tools=False),)
