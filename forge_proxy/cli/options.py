"""Options that several commands have, and what they set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from forge_proxy.backends.config import Kind

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="YAML file; config/forge-proxy.yaml documents each setting.")
]
Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (127.0.0.1).")]
Port = Annotated[int | None, typer.Option("--port", help="Port to listen on (8081).")]
BackendKind = Annotated[
    Kind | None, typer.Option("--backend", help="Kind of model server; 'openai' is any compatible one.")
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
    typer.Option("--model", help="The model for names that the server does not know; alone, an Ollama model."),
]


def said_by(
    host: str | None = None,
    port: int | None = None,
    kind: str | None = None,
    url: str | None = None,
    gguf: Path | None = None,
    model: str | None = None,
    llama_server: Path | None = None,
    context: int | None = None,
) -> dict[str, Any]:
    """What the options set: one that names a backend replaces what the file says of that, and adds nothing to it."""
    server = {"host": host, "port": port}
    backend: dict[str, Any] = {"kind": kind, "url": url, "gguf": gguf, "model": model}
    if any(value is not None for value in (kind, url, gguf)):
        replaced = {key: backend[key] for key in ("kind", "url", "gguf")}
        backend = {**replaced, **({"model": model} if model is not None else {})}
    else:
        backend = {"model": model} if model is not None else {}
    ours = {"binary": llama_server, "context": context}
    if started := {key: value for key, value in ours.items() if value is not None}:
        backend["llama_server"] = started
    said: dict[str, Any] = {
        "server": {key: value for key, value in server.items() if value is not None},
        "backend": backend,
    }
    return {section: values for section, values in said.items() if values}
