"""The commands and their options. An expected error is printed as one line on stderr with an exit code, without a
traceback.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from forge_proxy._version import __version__
from forge_proxy.api.config import ServerConfigError
from forge_proxy.backends.config import BackendChoiceError
from forge_proxy.cli.admin import add_admin_commands
from forge_proxy.cli.batches import batches as batch_commands
from forge_proxy.cli.config import config as config_commands
from forge_proxy.cli.connect.command import connect
from forge_proxy.cli.evals.commands import evals
from forge_proxy.cli.jobs import jobs as job_commands
from forge_proxy.cli.logs import logs
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
    collect_overrides,
    read_settings,
    settings_file,
)
from forge_proxy.cli.requests import ledger
from forge_proxy.cli.requests import requests as request_commands
from forge_proxy.cli.rescue import Finish, InputError
from forge_proxy.cli.runs import runs as run_commands
from forge_proxy.cli.stop import stop
from forge_proxy.cli.tasks import tasks as task_commands
from forge_proxy.cli.top import top
from forge_proxy.core.errors import ForgeError
from forge_proxy.settings import SettingsError, set_by_file
from forge_proxy.telemetry.hangup import prepare_hangup

FAILED = 1
MISCONFIGURED = 2

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Makes tool calling with self-hosted models reliable.",
)

SelfTest = Annotated[
    bool | None,
    typer.Option(
        "--self-test/--no-self-test",
        help="Test how the model calls tools, with a few short requests. Default: on if --model is given.",
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
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the daemon handles it: nothing to clean up yet
    from forge_proxy import daemon  # local import: --help does not need the web server

    file = settings_file(config)
    overrides = collect_overrides(host, port, backend, backend_url, gguf, model, llama_server, ctx)
    try:
        daemon.run(lambda: read_settings(file, overrides), hangup, file)
    except BackendChoiceError as error:
        if set_by_file(file, overrides, "backend"):
            raise SettingsError(f"{file}: {error}") from error
        raise


app.command()(stop)
app.command()(ledger)
app.command()(logs)
app.command()(top)


@app.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def start() -> None:
    """Report the correct command name; other daemons use `start`."""
    raise InputError("no such command: start; run the daemon with `forge-proxy serve`")


add_admin_commands(app)
app.add_typer(config_commands)
app.add_typer(run_commands)
app.add_typer(batch_commands)
app.add_typer(task_commands)
app.add_typer(request_commands)
app.add_typer(job_commands)
app.add_typer(evals)
app.command()(connect)


@app.command()
def demo() -> None:
    """Compare raw and guarded conversations with the embedded test model."""
    from forge_proxy.cli.demo import run_demo

    run_demo()


@app.command()
def check(
    config: ConfigFile = None, host: Host = None, port: Port = None, backend: BackendKind = None,
    backend_url: BackendUrl = None, gguf: Gguf = None, model: Model = None, llama_server: LlamaServer = None,
    ctx: Context = None, self_test: SelfTest = None,
) -> None:  # fmt: skip
    """Check the settings and the backend, and show what serve would use. Exit code 0 if it is ready."""
    from forge_proxy.cli.check import run_check

    overrides = collect_overrides(host, port, backend, backend_url, gguf, model, llama_server, ctx)
    tests = model is not None if self_test is None else self_test
    if not run_check(read_settings(settings_file(config), overrides), self_test=tests):
        raise typer.Exit(FAILED)


@app.command()
def rescue(
    file: Annotated[
        Path | None, typer.Argument(help="The model's output, or a file of golden cases. Default: stdin.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option("--tools", help="JSON file with the offered tools, or a recorded request.")
    ] = None,
    template: Annotated[
        Path | None,
        typer.Option(
            "--template", help="The model's chat template: Jinja, tokenizer_config.json or GGUF. Alone: show its form."
        ),
    ] = None,
    finish: Annotated[Finish, typer.Option("--finish", help="'length': a token limit cut off the response.")] = "stop",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the tool calls in a model's output, and why others are not recognized. Exit code 1 for an invalid call."""
    from forge_proxy.cli.rescue.command import run_rescue

    if not run_rescue(file, tools, finish, template, json=json):
        raise typer.Exit(FAILED)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def run_app() -> None:
    """Run the command line of this process."""
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
