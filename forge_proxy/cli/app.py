"""The commands and their options. An expected fault is one clear line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_proxy import __version__
from forge_proxy.api.config import ServerConfigError
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.cli.admin import add_admin_commands
from forge_proxy.cli.config import config as config_commands
from forge_proxy.cli.connect.command import connect
from forge_proxy.cli.evals.commands import evals
from forge_proxy.cli.options import (
    BackendKind,
    BackendUrl,
    ConfigFile,
    Context,
    Gguf,
    Host,
    LlamaServer,
    Model,
    Port,
    read_settings,
    said_by,
    settings_file,
)
from forge_proxy.cli.rescue import Finish, InputError
from forge_proxy.cli.runs import runs as run_commands
from forge_proxy.cli.stop import stop
from forge_proxy.core.errors import ForgeError
from forge_proxy.settings import SettingsError, set_by_file
from forge_proxy.telemetry.hangup import prepare_hangup

FAILED = 1
MISCONFIGURED = 2

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Makes a self-hosted model's tool calling dependable.",
)

SelfTest = Annotated[
    bool | None,
    typer.Option(
        "--self-test/--no-self-test",
        help="Ask the model a few short questions: which way it calls tools, and so on. Done where --model names one.",
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options without a command."""


@app.command()
def serve(
    config: ConfigFile = None, host: Host = None, port: Port = None, backend: BackendKind = None,
    backend_url: BackendUrl = None, gguf: Gguf = None, model: Model = None, llama_server: LlamaServer = None,
    ctx: Context = None,
) -> None:  # fmt: skip
    """Run the daemon."""
    hangup = prepare_hangup()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the daemon handles it: there is nothing to clean up yet
    from forge_proxy import daemon  # the help text needs no web server

    file = settings_file(config)
    said = said_by(host, port, backend, backend_url, gguf, model, llama_server, ctx)
    try:
        daemon.run(lambda: read_settings(file, said), hangup, file)
    except BackendChoiceError as error:
        if set_by_file(file, said, "backend"):
            raise SettingsError(f"{file}: {error}") from error
        raise


app.command()(stop)


@app.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start() -> None:
    """A word that other daemons have for it."""
    raise InputError("no such command: start; run the daemon with `forge-proxy serve`")


add_admin_commands(app)
app.add_typer(config_commands)
app.add_typer(run_commands)
app.add_typer(evals)
app.command()(connect)


@app.command()
def demo() -> None:
    """Raw and guarded conversations with the embedded test model, side by side."""
    from forge_proxy.cli.demo import run_demo

    run_demo()


@app.command()
def check(
    config: ConfigFile = None, host: Host = None, port: Port = None, backend: BackendKind = None,
    backend_url: BackendUrl = None, gguf: Gguf = None, model: Model = None, llama_server: LlamaServer = None,
    ctx: Context = None, self_test: SelfTest = None,
) -> None:  # fmt: skip
    """Read the settings, probe the backend, say what would be used. Exit code 0 if it would answer."""
    from forge_proxy.cli.check import run_check

    said = said_by(host, port, backend, backend_url, gguf, model, llama_server, ctx)
    tests = model is not None if self_test is None else self_test
    if not run_check(read_settings(settings_file(config), said), self_test=tests):
        raise typer.Exit(FAILED)


@app.command()
def rescue(
    file: Annotated[Path | None, typer.Argument(help="What the model wrote; stdin where it is left out.")] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", help="Needed: JSON file with the tools offered, or a recorded request.")
    ] = None,
    finish: Annotated[Finish, typer.Option("--finish", help="'length': the answer was cut by a token limit.")] = "stop",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which tool calls stand in a text that a model wrote, and why others do not. Exit code 1 for a bad call."""
    from forge_proxy.cli.rescue.command import run_rescue

    if not run_rescue(file, tools, finish, json=json):
        raise typer.Exit(FAILED)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def run_app() -> None:
    """Run the command that the process was started with."""
    try:
        app()
    except (SettingsError, BackendChoiceError, ServerConfigError, InputError) as exc:
        _fail(str(exc), MISCONFIGURED)
    except ForgeError as exc:
        _fail(str(exc), FAILED)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        print(f"forge-proxy: {line}", file=sys.stderr)
    sys.exit(code)
