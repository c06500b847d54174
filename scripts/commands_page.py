"""docs/commands.md: every command with its arguments and options, as its help text has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import typer.main

from forge_proxy.cli.app import app
from scripts.markdown import NOTICE, code, sentence, table

_INTRO = """
# Commands

`forge-proxy --help` lists the commands, `forge-proxy COMMAND --help` describes one. `--json` prints output for scripts.
Commands that talk to a running daemon take its address and key from `--url` and `--key`, or from `FORGE_PROXY_URL` and
`FORGE_PROXY_KEY`.

The exit code is 0 for success, 1 for failure, and 2 if options or settings cannot be used.

Shell completion for bash, zsh, fish and PowerShell:

```sh
forge-proxy --install-completion    # for the shell that runs it; then open a new terminal
```
"""


def render_commands() -> str:
    """The whole page."""
    parts = [NOTICE, _INTRO]
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        parts += _described(command, f"forge-proxy {name}")
    return "\n".join(parts)


def _described(command: Any, path: str) -> Iterator[str]:
    if command.hidden:
        return
    yield f"## `{path}`\n\n{sentence(command.help or '')}\n"
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _described(inner, f"{path} {name}")
        return
    rows = [
        (_spelling(parameter), " ".join((sentence(parameter.help or ""), _default(parameter))))
        for parameter in command.params
        if parameter.name != "help" and not getattr(parameter, "hidden", False)
    ]
    yield table(("option", "description"), rows)


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(str(parameter.metavar or parameter.name).upper())
    return code("/".join((*parameter.opts, *parameter.secondary_opts)) + _value(parameter))


def _default(parameter: Any) -> str:
    """The default of an option, if there is one that its description does not name."""
    default = parameter.default
    is_shown = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    return f"Default: {code(str(default))}." if is_shown else ""


def _value(parameter: Any) -> str:
    """What stands behind an option that takes a value: its choices, or its name in capitals."""
    if parameter.is_flag:
        return ""
    if choices := get_args(parameter.type_descriptor.annotation):
        return f" {'|'.join(str(choice) for choice in choices if isinstance(choice, str))}".rstrip() or " VALUE"
    return f" {parameter.metavar or parameter.name.upper()}"
