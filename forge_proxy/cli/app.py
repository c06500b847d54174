"""The commands and their options. An expected fault is one clear line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_proxy import __version__
from forge_proxy.backends.config import BackendChoiceError, Kind
from forge_proxy.core.errors import ForgeError
from forge_proxy.settings import Settings, SettingsError, load

FAILED = 1
MISCONFIGURED = 2

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Makes a self-hosted model's tool calling dependable.",
)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="YAML file; config/forge-proxy.yaml documents each setting.")
]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on (8081).")]
BackendKind = Annotated[
    Kind | None, typer.Option("--backend", help="Kind of model server; 'openai' is any compatible one.")
]
BackendUrl = Annotated[str | None, typer.Option("--backend-url", help="Base URL of a running model server.")]
Gguf = Annotated[Path | None, typer.Option("--gguf", help="Model file for the embedded llama.cpp.")]
Model = Annotated[
    str | None,
    typer.Option("--model", help="Stands in for names the server does not know; alone: an Ollama model."),
]


def _load(
    config: Path | None,
    host: str | None,
    port: int | None,
    kind: str | None,
    url: str | None,
    gguf: Path | None,
    model: str | None,
) -> Settings:
    """Settings with the options on top: one that names a backend replaces the file's and adds nothing to it."""
    server = {"host": host, "port": port}
    backend: dict[str, Any] = {"kind": kind, "url": url, "gguf": gguf, "model": model}
    if any(value is not None for value in (kind, url, gguf)):
        replaced = {key: backend[key] for key in ("kind", "url", "gguf")}
        backend = {**replaced, **({"model": model} if model is not None else {})}
    else:
        backend = {"model": model} if model is not None else {}
    said: dict[str, Any] = {
        "server": {key: value for key, value in server.items() if value is not None},
        "backend": backend,
    }
    return load(config, {section: values for section, values in said.items() if values})


@app.command()
def serve(
    config: ConfigFile = None, host: Host = None, port: Port = None, backend: BackendKind = None,
    backend_url: BackendUrl = None, gguf: Gguf = None, model: Model = None,
) -> None:  # fmt: skip
    """Run the daemon."""
    from forge_proxy import daemon  # the help text needs no web server

    daemon.run(_load(config, host, port, backend, backend_url, gguf, model))


@app.command()
def demo() -> None:
    """Raw and guarded conversations with the embedded test model, side by side."""
    from forge_proxy.cli.demo import run_demo

    run_demo()


@app.command()
def check(
    config: ConfigFile = None, host: Host = None, port: Port = None, backend: BackendKind = None,
    backend_url: BackendUrl = None, gguf: Gguf = None, model: Model = None,
) -> None:  # fmt: skip
    """Read the settings, probe the backend, say what would be used. Exit code 0 if it would answer."""
    from forge_proxy.cli.check import run_check

    if not run_check(_load(config, host, port, backend, backend_url, gguf, model)):
        raise typer.Exit(FAILED)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """The entry point of the `forge-proxy` command."""
    try:
        app()
    except (SettingsError, BackendChoiceError) as exc:
        _fail(str(exc), MISCONFIGURED)
    except ForgeError as exc:
        _fail(str(exc), FAILED)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        print(f"forge-proxy: {line}", file=sys.stderr)
    sys.exit(code)
