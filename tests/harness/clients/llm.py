"""llm, the command line, with tools as functions of a Python file."""

from __future__ import annotations

from tests.harness.client import PROGRAMS, Client, Place
from tests.harness.packages import Venv
from tests.harness.running import Command

_PACKAGE = Venv("llm", ("llm",))


def _start(place: Place) -> Command:
    folder = place.home / "llm"
    folder.mkdir()
    model = ("model_id: scripted", "model_name: scripted", f"api_base: {place.url}", "supports_tools: true")
    (folder / "extra-openai-models.yaml").write_text("- " + "\n  ".join(model) + "\n")
    functions = PROGRAMS / "llm_functions.py"
    limit = ("--chain-limit", "20")
    words = (
        _PACKAGE.python,
        "-m",
        "llm",
        "-m",
        "scripted",
        "--key",
        "none",
        "--functions",
        functions,
        *limit,
        place.prompt,
    )
    return Command(words, {"PATH": _PACKAGE.path, "LLM_USER_PATH": str(folder)})


ROWS = (Client("llm", _PACKAGE, _start),)
