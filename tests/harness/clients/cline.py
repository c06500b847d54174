"""cline, the command line, by its OpenAI-compatible provider."""

from __future__ import annotations

import json

from tests.harness.backend import MODEL
from tests.harness.client import Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command
from tests.harness.tasks import ReadThenWriteByEditor

_PACKAGE = Npm("cline", "cline")


def _start(place: Place) -> Command:
    settings = {"provider": "openai-compatible", "apiKey": "none", "model": MODEL, "baseUrl": place.url}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    known = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}}
    folder = place.home / ".cline" / "data" / "settings"
    folder.mkdir(parents=True)
    (folder / "providers.json").write_text(json.dumps({**known, "providers": {"openai-compatible": provider}}))
    off = {"CLINE_TELEMETRY_DISABLED": "1", "CLINE_NO_AUTO_UPDATE": "1"}
    # Otherwise a process stays that serves every later run.
    local = {"CLINE_SESSION_BACKEND_MODE": "local"}
    words = (_PACKAGE.command, "-P", "openai-compatible", "-m", MODEL, "--retries", "3", place.prompt)
    return Command(words, {"PATH": _PACKAGE.path, **off, **local})


ROWS = (Client("cline", _PACKAGE, _start, ReadThenWriteByEditor),)
