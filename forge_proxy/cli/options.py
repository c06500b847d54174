"""Options shared by several commands, and the settings that they override."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from forge_proxy.backends.config import BackendChoiceError, Kind, hint_kind
from forge_proxy.settings import Settings, load
from forge_proxy.settings.file import find_file

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Settings as YAML; default: the file that FORGE_PROXY_CONFIG names, else "
        "~/.config/forge-proxy/config.yaml if it exists. config/forge-proxy.yaml documents each setting.",
    ),
]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on (8081).")]


def _read_kind(word: str) -> str:
    kinds = get_args(Kind)
    if word not in kinds:
        raise typer.BadParameter(hint_kind(word) or f"{word!r} is not one of {', '.join(kinds)}")
    return word


BackendKind = Annotated[
    Kind | None,
    typer.Option(
        "--backend",
        parser=_read_kind,
        metavar=f"[{'|'.join(get_args(Kind))}]",
        help="Kind of model server; 'openai' is any compatible one.",
    ),
]
BackendUrl = Annotated[str | None, typer.Option("--backend-url", help="Base URL of a running model server.")]
Gguf = Annotated[
    Path | None, typer.Option("--gguf", help="Model file (GGUF); the daemon starts a model server for it.")
]
LlamaServer = Annotated[
    Path | None,
    typer.Option("--llama-server", help="The llama-server or llamafile to start, instead of the one on PATH."),
]
Context = Annotated[
    int | None, typer.Option("--ctx", help="Tokens of context for each slot of a managed model server.")
]
Model = Annotated[
    str | None,
    typer.Option("--model", help="Model for names that the server does not know; on its own, an Ollama model."),
]


def settings_file(named: Path | None) -> Path | None:
    """Return the settings file to read: the given one, or the one that is found."""
    return find_file(named)


def read_settings(file: Path | None, overrides: dict[str, Any]) -> Settings:
    """Load the settings, and reject --ctx if the file sets backend.url. Raises like `load` and `collect_overrides`."""
    settings = load(file, overrides)
    if "context" in overrides.get("backend", {}).get("llama_server", {}) and settings.backend.url is not None:
        raise BackendChoiceError(
            "--ctx is for a llama.cpp server that forge-proxy starts, but the file sets backend.url, "
            "a running server whose window is fixed"
        )
    return settings


def collect_overrides(
    host: str | None = None,
    port: int | None = None,
    kind: str | None = None,
    url: str | None = None,
    gguf: Path | None = None,
    model: str | None = None,
    llama_server: Path | None = None,
    context: int | None = None,
) -> dict[str, Any]:
    """Return the settings that the options override. An option that selects a backend replaces the file's selection."""
    server = {"host": host, "port": port}
    backend: dict[str, Any] = {"kind": kind, "url": url, "gguf": gguf, "model": model}
    if any(value is not None for value in (kind, url, gguf)):
        replaced = {key: backend[key] for key in ("kind", "url", "gguf")}
        backend = {**replaced, **({"model": model} if model is not None else {})}
    else:
        backend = {"model": model} if model is not None else {}
    if context is not None and (url is not None or kind in ("openai", "ollama", "anthropic")):
        raise BackendChoiceError(
            "--ctx is for a llama.cpp server that forge-proxy starts (--gguf); the window of a running server is fixed"
        )
    managed = {"binary": llama_server, "context": context}
    if launch := {key: value for key, value in managed.items() if value is not None}:
        backend["llama_server"] = launch
    overrides: dict[str, Any] = {
        "server": {key: value for key, value in server.items() if value is not None},
        "backend": backend,
    }
    return {section: values for section, values in overrides.items() if values}
