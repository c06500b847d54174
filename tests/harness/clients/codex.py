"""Codex, by the configuration that `connect codex` writes; it speaks only the Responses API."""

from __future__ import annotations

from tests.harness.client import Client, Place, connected
from tests.harness.packages import Npm
from tests.harness.running import Command
from tests.harness.tasks import ReadThenPatch

PACKAGE = Npm("codex", "@openai/codex")


def _start(place: Place) -> Command:
    connected("codex", place)
    quiet = ("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false")
    options = ("--skip-git-repo-check", "--sandbox", "danger-full-access")
    return Command((PACKAGE.command, "exec", *quiet, *options, place.prompt), {"PATH": PACKAGE.path})


ROWS = (Client("codex", PACKAGE, _start, ReadThenPatch, is_served_directly=False),)
