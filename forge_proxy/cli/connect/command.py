"""The command: queries the models and windows of the daemon, and prints or writes the configuration of a client."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forge_proxy.cli.connect.address import default_url
from forge_proxy.cli.connect.clients import CLIENTS, ClientName
from forge_proxy.cli.connect.minimum import describe_small_window
from forge_proxy.cli.connect.printing import note, print_files, print_start
from forge_proxy.cli.connect.setups import (
    CHAT_COMPLETIONS,
    ClientConfigFile,
    ClientSetup,
    DaemonAddress,
    ServedModel,
)
from forge_proxy.cli.rescue import InputError
from forge_proxy.client.remote import AdminClient, DaemonError, NoDaemon

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
_WRITES_ALL_MODELS = ("opencode", "goose", "zed", "vscode")
_HAS_SMALL_MODEL = ("opencode", "claude")


def connect(
    context: typer.Context,
    client: Annotated[ClientName, typer.Argument(help="The client to configure.")],
    model: Annotated[
        str | None, typer.Option("--model", help="The model to use; needed if the daemon serves several.")
    ] = None,
    small_model: Annotated[
        str | None,
        typer.Option("--small-model", help="The model for short side tasks (claude, opencode). Default: --model."),
    ] = None,
    write_it: Annotated[
        bool, typer.Option("--write", help="Merge the configuration into the client's files; copies of them are kept.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write even if the daemon does not serve what the client needs.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore what was there before the latest --write; needs no daemon.")
    ] = False,
    check_it: Annotated[
        bool,
        typer.Option("--check", help="Ask one question through the configuration that the client has now."),
    ] = False,
    url: DaemonUrl = None,
    key: ClientKey = None,
) -> None:
    """Print the configuration of a client for the running daemon: address, key, models and context windows."""
    _check_options(client, small_model, write_it=write_it, force=force, undo=undo, check_it=check_it)
    if undo:
        _undo(client)
    if check_it and not write_it:
        _check(client, {})
    if undo or (check_it and not write_it):
        return
    address = url or default_url(Path.cwd())
    if _is_from_environment(context, "key") and _needs_no_key(AdminClient(address, None)):
        key = None  # the variable may contain an admin key, which must not get into a client's file
    remote = AdminClient(address, key)
    target = _target(client, remote, key, model, small_model)
    setup = CLIENTS[client](target)
    missing = _missing_route(remote, setup)
    if write_it:
        _write(client, setup, None if force else missing)
    else:
        print_files(setup)
    print_start(setup)
    if missing:
        note(missing)
    if small := describe_small_window(client, target.window):
        note(small)
    if check_it:
        _check(client, setup.variables)  # which were printed just now


def _check_options(
    client: str, small_model: str | None, *, write_it: bool, force: bool, undo: bool, check_it: bool
) -> None:
    """Raise `InputError` for options that exclude each other."""
    if undo and (write_it or check_it):
        raise InputError(f"--undo and {'--write' if write_it else '--check'} exclude each other")
    if undo and force:
        raise InputError("--force is for --write only")
    if small_model is not None and client not in _HAS_SMALL_MODEL:
        raise InputError(f"--small-model is for {' and '.join(_HAS_SMALL_MODEL)} only")
    if force and not write_it:
        raise InputError("--force is for --write only; without --write, connect prints the configuration")


def _is_from_environment(context: typer.Context, option: str) -> bool:
    """Return whether an environment variable sets a non-empty value of the option."""
    source = context.get_parameter_source(option)
    return bool(context.params[option]) and source is not None and source.name == "ENVIRONMENT"


def _target(client: str, remote: AdminClient, key: str | None, wanted: str | None, small: str | None) -> DaemonAddress:
    """Return the address, models and windows of the daemon. Raises `NoDaemon` or `DaemonError`."""
    cards = {str(card["id"]): card for card in remote.ask("GET", "/v1/models").get("data", [])}
    named = {alias: card for card in cards.values() for alias in card.get("aliases") or ()} | cards
    takes_all = client in _WRITES_ALL_MODELS
    # tiers are further names of these models
    models = [name for name, card in cards.items() if card.get("root", name) == name or card["root"] not in cards]
    if wanted is None and (not cards or (len(models) != 1 and not takes_all)):
        raise NoDaemon(f"choose a model with --model; the daemon serves: {', '.join(cards) or 'none'}")
    for model in (wanted, small):
        if model is not None and model not in named:
            raise NoDaemon(f"no model {model!r} at {remote.root}; the daemon serves: {', '.join(named) or 'none'}")
    name = wanted if wanted is not None else next(iter(models), next(iter(cards)))
    if wanted is None and len(cards) > 1:
        note(f"{name} is the default model; choose another with --model: {', '.join(cards)}")
    others = tuple(
        ServedModel(other, card.get("max_model_len")) for other, card in cards.items() if takes_all and other != name
    )
    return DaemonAddress(remote.root, key or "none", name, named[name].get("max_model_len"), others, small)


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
        raise CannotWrite(_no_file(client, setup))
    if missing:
        raise CannotWrite(f"nothing was written: {missing}. --force writes the configuration anyway")
    for file in setup.files:
        path, copy = write(file, Path.home())
        print(f"wrote {path}{f'; its previous content is in {copy} (--undo restores it)' if copy else ''}")
        if copy is not None and _loses_comments(file, copy):
            note(f"comments of {path} are in the copy only")


def _no_file(client: str, setup: ClientSetup) -> str:
    if setup.dialog:
        return f"no file is written for {client}: {setup.dialog.reason}; without --write, connect prints what to enter"
    return f'{client} has no configuration file: eval "$(forge-proxy connect {client})"'


def _loses_comments(file: ClientConfigFile, copy: Path) -> bool:
    """Return whether the merge dropped comments: only objects in JSON are edited in place."""
    sign = {"yaml": "#", "json": "//", "toml": ""}[file.format]
    is_rewritten = file.format == "yaml" or isinstance(file.values, list)
    return is_rewritten and sign in copy.read_text(encoding="utf-8")


def _check(client: str, variables: dict[str, str]) -> None:
    from forge_proxy.cli.connect.check import check
    from forge_proxy.cli.formatting import show_rows

    show_rows(check(client, variables))


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
