"""Claude Code, by the configuration that `connect claude` writes; it speaks only the Messages API."""

from __future__ import annotations

from tests.harness.client import Client, Place, connected
from tests.harness.packages import Npm
from tests.harness.running import Command

PACKAGE = Npm("claude", "@anthropic-ai/claude-code")
OFF = dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"), "1")


def _start(place: Place) -> Command:
    connected("claude", place)
    words = (PACKAGE.command, "-p", "--allowedTools", "Read,Write", "--", place.prompt)
    return Command(words, {"PATH": PACKAGE.path, **OFF})


ROWS = (Client("claude-code", PACKAGE, _start, is_served_directly=False),)
