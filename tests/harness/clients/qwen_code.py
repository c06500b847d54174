"""qwen-code, with its OpenAI authentication."""

from __future__ import annotations

import json

from tests.harness.backend import MODEL
from tests.harness.client import Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command

_PACKAGE = Npm("qwen-code", "@qwen-code/qwen-code")


def _start(place: Place) -> Command:
    settings = {
        "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
        "security": {"auth": {"selectedType": "openai"}},
    }
    folder = place.home / ".qwen"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    program = _PACKAGE.folder / "node_modules" / ".bin" / "qwen"
    env = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": place.url, "OPENAI_MODEL": MODEL, "PATH": _PACKAGE.path}
    return Command((program, "--auth-type", "openai", "-y", "-m", MODEL, place.prompt), env)


ROWS = (Client("qwen-code", _PACKAGE, _start),)
