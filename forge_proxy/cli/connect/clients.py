"""The clients that `connect` configures, by name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from forge_proxy.cli.connect.agents import goose, jan, open_webui, openhands
from forge_proxy.cli.connect.editors import cline, roo, vscode, zed
from forge_proxy.cli.connect.setups import ClientSetup, DaemonAddress
from forge_proxy.cli.connect.terminal import aider, claude, codex, continue_, env, openai, opencode

ClientName = Literal[
    "opencode", "codex", "claude", "aider", "continue", "cline", "goose", "openhands", "zed", "vscode", "roo",
    "open-webui", "jan", "openai", "env",
]  # fmt: skip

CLIENTS: Mapping[str, Callable[[DaemonAddress], ClientSetup]] = {
    "opencode": opencode,
    "codex": codex,
    "claude": claude,
    "aider": aider,
    "continue": continue_,
    "cline": cline,
    "goose": goose,
    "openhands": openhands,
    "zed": zed,
    "vscode": vscode,
    "roo": roo,
    "open-webui": open_webui,
    "jan": jan,
    "openai": openai,
    "env": env,
}
