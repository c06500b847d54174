"""opencode, by its OpenAI-compatible provider."""

from __future__ import annotations

import json

from tests.harness.backend import MODEL
from tests.harness.client import Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command

_PACKAGE = Npm("opencode", "opencode-ai")


def _start(place: Place) -> Command:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "forge",
        "options": {"baseURL": place.url, "apiKey": "none"},
        "models": {MODEL: {"name": MODEL, "limit": {"context": 131072, "output": 8192}}},
    }
    settings = {"autoupdate": False, "share": "disabled", "model": f"forge/{MODEL}", "small_model": f"forge/{MODEL}"}
    config = {**settings, "permission": {"*": "allow"}, "provider": {"forge": provider}}
    (place.work / "opencode.json").write_text(json.dumps(config))
    off = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}
    words = (_PACKAGE.command, "run", "-m", f"forge/{MODEL}", place.prompt)
    return Command(words, {"PATH": _PACKAGE.path, **off})


ROWS = (Client("opencode", _PACKAGE, _start),)
