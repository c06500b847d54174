"""Continue's command line, by its OpenAI provider."""

from __future__ import annotations

from tests.harness.backend import MODEL
from tests.harness.client import Client, Place
from tests.harness.packages import Npm
from tests.harness.running import Command

_PACKAGE = Npm("continue", "@continuedev/cli")


def _start(place: Place) -> Command:
    model = f"{{name: {MODEL}, provider: openai, model: {MODEL}, apiBase: {place.url}, apiKey: none"
    roles = "roles: [chat, edit, apply], capabilities: [tool_use]}"
    config = place.home / "config.yaml"
    config.write_text(f"name: forge\nversion: 0.0.1\nschema: v1\nmodels:\n  - {model}, {roles}\n")
    program = _PACKAGE.folder / "node_modules" / ".bin" / "cn"
    env = {"PATH": _PACKAGE.path, "CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0"}
    return Command((program, "--config", config, "--auto", "-p", place.prompt), env)


ROWS = (Client("continue", _PACKAGE, _start),)
