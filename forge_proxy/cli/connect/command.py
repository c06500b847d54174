"""The command: asks the daemon for its model and window, prints what the client has to be told, or writes it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from forge_proxy.cli.connect.clients import CLIENTS, Setup, Target
from forge_proxy.cli.remote import DEFAULT_URL, NoDaemon, Remote

Client = Literal["opencode", "codex", "claude", "aider", "continue", "openai", "env"]


def connect(
    client: Annotated[Client, typer.Argument(help="Which client.")],
    model: Annotated[str | None, typer.Option("--model", help="Which model, where several are served.")] = None,
    write_it: Annotated[bool, typer.Option("--write", help="Write it into the client's own files.")] = False,
    url: Annotated[str, typer.Option("--url", envvar="FORGE_PROXY_URL", help="Where the daemon is.")] = DEFAULT_URL,
    key: Annotated[str | None, typer.Option("--key", help="One of server.api_keys, if there are any.")] = None,
) -> None:
    """Print a client's configuration for the running daemon: address, key, model and its true window."""
    from forge_proxy.cli.connect.write import CannotWrite, write  # the help text needs no YAML

    setup = CLIENTS[client](_target(Remote(url, key), key, model))
    if write_it and not setup.files:
        raise CannotWrite(f'{client} reads no file of its own: eval "$(forge-proxy connect {client})"')
    if write_it:
        for file in setup.files:
            path, backup = write(file, Path.home())
            print(f"wrote {path}{f'; what it held before is in {backup}' if backup else ''}")
    else:
        _print_files(setup)
    for name, value in setup.variables.items():
        print(f"export {name}={shlex.quote(value)}")
    if setup.run:
        print(f"forge-proxy: then start it: {setup.run}", file=sys.stderr)  # not among what may be evaluated
    for note in setup.notes:
        print(f"forge-proxy: {note}", file=sys.stderr)


def _target(remote: Remote, key: str | None, wanted: str | None) -> Target:
    """The daemon's model and window. Raises `NoDaemon` or `RefusedByDaemon`."""
    cards = {str(card["id"]): card for card in remote.ask("GET", "/v1/models").get("data", [])}
    named = {alias: card for card in cards.values() for alias in card.get("aliases") or ()} | cards
    if wanted is None and len(cards) != 1:
        raise NoDaemon(f"say which model with --model; there is: {', '.join(cards) or 'none'}")
    if wanted is not None and wanted not in named:
        raise NoDaemon(f"no model {wanted!r} at {remote.root}; there is: {', '.join(named) or 'none'}")
    name = wanted if wanted is not None else next(iter(cards))
    return Target(remote.root, key or "none", name, named[name].get("max_model_len"))


def _print_files(setup: Setup) -> None:
    from forge_proxy.cli.connect.write import as_text

    for file in setup.files:
        if len(setup.files) > 1 or setup.variables:
            print(f"# {file.path}")
        print(as_text(file), end="")
    if len(setup.files) == 1:
        print(f"forge-proxy: this belongs in {setup.files[0].path}; --write merges it into that file", file=sys.stderr)
