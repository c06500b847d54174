"""The command: queries the models and windows of the daemon, and prints or writes the configuration of a client."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from forge_proxy.cli.connect.address import default_url
from forge_proxy.cli.connect.clients import (
    CHAT_COMPLETIONS,
    CLIENTS,
    ClientConfigFile,
    ClientSetup,
    DaemonAddress,
    ServedModel,
)
from forge_proxy.cli.connect.minimum import describe_small_window
from forge_proxy.cli.remote import AdminClient, DaemonError, NoDaemon
from forge_proxy.cli.rescue import InputError

Client = Literal["opencode", "codex", "claude", "aider", "continue", "openai", "env"]
DaemonUrl = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="FORGE_PROXY_URL",
        help="Address of the daemon; otherwise http://127.0.0.1 with the port that FORGE_PORT publishes, or 8081.",
    ),
]
ClientKey = Annotated[
    str | None,
    typer.Option("--key", envvar="FORGE_PROXY_KEY", show_envvar=True, help="One of server.api_keys, if there are any."),
]
_WRITES_ALL_MODELS = ("opencode",)


def connect(
    context: typer.Context,
    client: Annotated[Client, typer.Argument(help="The client to configure.")],
    model: Annotated[
        str | None, typer.Option("--model", help="The model to use; needed if the daemon serves several.")
    ] = None,
    write_it: Annotated[
        bool, typer.Option("--write", help="Merge it into the client's own files, and keep a copy of them.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --write: also if the daemon does not serve what the client needs.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore what was there before the latest --write; needs no daemon.")
    ] = False,
    url: DaemonUrl = None,
    key: ClientKey = None,
) -> None:
    """Print the configuration of a client for the running daemon: address, key, models and context windows."""
    _check_options(write_it=write_it, force=force, undo=undo)
    if undo:
        _undo(client)
        return
    address = url or default_url(Path.cwd())
    if _is_from_environment(context, "key") and _needs_no_key(AdminClient(address, None)):
        key = None  # the variable may contain an admin key, which must not get into a client's file
    remote = AdminClient(address, key)
    target = _target(client, remote, key, model)
    setup = CLIENTS[client](target)
    missing = _missing_route(remote, setup)
    if write_it:
        _write(client, setup, None if force else missing)
    else:
        _print_files(setup)
    _print_start(setup)
    if missing:
        _note(missing)
    if small := describe_small_window(client, target.window):
        _note(small)


def _check_options(*, write_it: bool, force: bool, undo: bool) -> None:
    """Raise `InputError` for options that exclude each other."""
    if undo and (write_it or force):
        raise InputError("--undo and --write exclude each other" if write_it else "--force is for --write only")
    if force and not write_it:
        raise InputError("--force is for --write only; without --write, connect prints the configuration")


def _is_from_environment(context: typer.Context, option: str) -> bool:
    """Return whether an environment variable sets a non-empty value of the option."""
    source = context.get_parameter_source(option)
    return bool(context.params[option]) and source is not None and source.name == "ENVIRONMENT"


def _note(text: str) -> None:
    print(f"forge-proxy: {text}", file=sys.stderr)  # not on stdout, which a shell may evaluate


def _target(client: str, remote: AdminClient, key: str | None, wanted: str | None) -> DaemonAddress:
    """Return the address, models and windows of the daemon. Raises `NoDaemon` or `DaemonError`."""
    cards = {str(card["id"]): card for card in remote.ask("GET", "/v1/models").get("data", [])}
    named = {alias: card for card in cards.values() for alias in card.get("aliases") or ()} | cards
    takes_all = client in _WRITES_ALL_MODELS
    if wanted is None and (not cards or (len(cards) > 1 and not takes_all)):
        raise NoDaemon(f"choose a model with --model; the daemon serves: {', '.join(cards) or 'none'}")
    if wanted is not None and wanted not in named:
        raise NoDaemon(f"no model {wanted!r} at {remote.root}; the daemon serves: {', '.join(named) or 'none'}")
    name = wanted if wanted is not None else next(iter(cards))
    if wanted is None and len(cards) > 1:
        _note(f"{name} is the default model; choose another with --model: {', '.join(cards)}")
    others = tuple(
        ServedModel(other, card.get("max_model_len")) for other, card in cards.items() if takes_all and other != name
    )
    return DaemonAddress(remote.root, key or "none", name, named[name].get("max_model_len"), others)


def _needs_no_key(remote: AdminClient) -> bool:
    try:
        remote.ask("GET", "/v1/models")
    except DaemonError:
        return False
    return True


def _missing_route(remote: AdminClient, setup: ClientSetup) -> str | None:
    """Return a message if the daemon does not serve the route of the client, else None. Raises `NoDaemon`."""
    if setup.route == CHAT_COMPLETIONS or setup.route in remote.ask("GET", "/openapi.json").get("paths", {}):
        return None
    name = setup.run.partition(" ")[0]
    return (
        f"this forge-proxy does not serve {setup.route}, which {name} needs, so that each request of {name} would get "
        "a 404; a later version will serve it"
    )


def _write(client: str, setup: ClientSetup, missing: str | None) -> None:
    from forge_proxy.cli.connect.write import CannotWrite, write  # the help text needs no YAML

    if not setup.files:
        raise CannotWrite(f'{client} has no configuration file: eval "$(forge-proxy connect {client})"')
    if missing:
        raise CannotWrite(f"nothing was written: {missing}. --force writes the configuration anyway")
    for file in setup.files:
        path, copy = write(file, Path.home())
        print(f"wrote {path}{f'; its previous content is in {copy} (--undo restores it)' if copy else ''}")
        if copy is not None and file.format == "yaml" and "#" in copy.read_text(encoding="utf-8"):
            _note(f"comments of {path} are in the copy only")


def _undo(client: str) -> None:
    from forge_proxy.cli.connect.write import CannotWrite, restore

    files: tuple[ClientConfigFile, ...] = CLIENTS[client](DaemonAddress("", "", "", 1)).files
    if not files:
        raise CannotWrite(f"{client} has no configuration file: there is nothing to restore")
    restored = [path for file in files if (path := restore(file, Path.home())) is not None]
    if not restored:
        raise CannotWrite(f"no copy of {files[0].path} to restore: connect --write has not changed the file")
    for path in restored:
        print(f"restored {path}" if path.exists() else f"removed {path}: connect --write had created it")


def _print_files(setup: ClientSetup) -> None:
    from forge_proxy.cli.connect.text import as_text

    for file in setup.files:
        if len(setup.files) > 1 or setup.variables:
            print(f"# {file.path}")
        print(as_text(file), end="")
    if len(setup.files) == 1:
        _note(f"this belongs in {setup.files[0].path}; --write merges it into that file")


def _print_start(setup: ClientSetup) -> None:
    """Print the environment variables of the client, and the command that starts it."""
    for name, value in setup.variables.items():
        print(f"export {name}={shlex.quote(value)}")
    if setup.run:
        _note(f"then start it: {setup.run}")
