"""llm, the command line, with the plugin that speaks Ollama's API."""

from __future__ import annotations

from tests.harness.backend import MODEL
from tests.harness.client import PROGRAMS, Client, Place
from tests.harness.packages import Venv
from tests.harness.running import Command

_PACKAGE = Venv("llm-ollama", ("llm-ollama", "llm"))


def _start(place: Place) -> Command:
    folder = place.home / "llm"
    folder.mkdir()
    functions = ("--functions", PROGRAMS / "llm_functions.py", "--chain-limit", "20")
    words = (_PACKAGE.python, "-m", "llm", "-m", f"ollama/{MODEL}", *functions, place.prompt)
    env = {"LLM_USER_PATH": str(folder), "OLLAMA_HOST": place.url.removesuffix("/v1")}
    return Command(words, {"PATH": _PACKAGE.path, **env})


ROWS = (Client("llm-ollama", _PACKAGE, _start, is_served_directly=False),)
