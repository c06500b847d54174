"""pi, by its chat completions provider."""

from __future__ import annotations

import json

from tests.harness.backend import MODEL
from tests.harness.client import Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command

_PACKAGE = Npm("pi", "@mariozechner/pi-coding-agent")


def _start(place: Place) -> Command:
    model = {"id": MODEL, "name": MODEL, "reasoning": False, "input": ["text"], "contextWindow": 131072}
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    models = [{**model, "maxTokens": 8192, "cost": cost}]
    provider = {"baseUrl": place.url, "api": "openai-completions", "apiKey": "none", "models": models}
    folder = place.home / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"forge": provider}}))
    words = (_PACKAGE.command, "--offline", "--provider", "forge", "--model", MODEL, "-p", place.prompt)
    return Command(words, {"PATH": _PACKAGE.path, "PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"})


ROWS = (Client("pi", _PACKAGE, _start),)
