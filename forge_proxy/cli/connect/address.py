"""Finds the address of a daemon that compose.yaml publishes, whose port a variable or `.env` may set."""

from __future__ import annotations

import os
import re
from pathlib import Path

from forge_proxy.client.remote import DEFAULT_URL

_VARIABLE = "FORGE_PORT"
_COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


def default_url(folder: Path) -> str:
    """Return the default address of the daemon, with the port that compose publishes.

    The port is `FORGE_PORT` of the environment, else that of `.env` in `folder` if a compose file there refers to it.
    """
    port = os.environ.get(_VARIABLE) or _port_in_env_file(folder)
    return f"http://127.0.0.1:{port}" if port and port.isascii() and port.isdigit() else DEFAULT_URL


def _port_in_env_file(folder: Path) -> str | None:
    try:
        files = [folder / name for name in _COMPOSE_FILES if (folder / name).is_file()]
        if not any(f"${{{_VARIABLE}" in file.read_text(encoding="utf-8") for file in files):
            return None
        found = re.findall(
            rf"^\s*(?:export\s+)?{_VARIABLE}=[\"']?(\d+)", (folder / ".env").read_text("utf-8"), re.MULTILINE
        )
    except (OSError, UnicodeDecodeError):
        return None
    return found[-1] if found else None
