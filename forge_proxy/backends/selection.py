"""Select the backend: the configured one, else a running server, else the embedded test model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from forge_proxy.backends.catalog import ModelEntry, catalog_of, launch_specs, refuse_wrong_models
from forge_proxy.backends.config import BackendChoiceError, BackendConfig, Kind
from forge_proxy.backends.exchange import strip_credentials
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.launch import LaunchSpec
from forge_proxy.backends.llama_server.model_file import model_fault
from forge_proxy.backends.llama_server.programs import TINY_MODEL, find_embedded, find_program, launch_spec
from forge_proxy.backends.probe import LLAMA_SERVER, OLLAMA, ServerKind, find_server, identify
from forge_proxy.backends.scheme import find_other_scheme

_URLS: dict[Kind, str] = {
    "llama-server": LLAMA_SERVER,
    "ollama": OLLAMA,
    "anthropic": "https://api.anthropic.com",
}


_MANAGED_KINDS: tuple[Kind, ...] = ("llama-server", "llamafile", "embedded")


@dataclass(frozen=True, slots=True)
class SelectedBackend:
    """The backend to use: a server at `url`, or a managed one to start with `launch`. `reason` is shown to users."""

    kind: Kind
    reason: str
    url: str | None = None
    launch: LaunchSpec | None = None
    specs: Mapping[str, LaunchSpec] = field(default_factory=dict[str, LaunchSpec])
    """The launch specification of each model of a managed server; `launch` is the first of them."""

    @property
    def public_url(self) -> str | None:
        """The URL without a password, for messages and logs."""
        return strip_credentials(self.url) if self.url is not None else None

    @property
    def gguf(self) -> Path | None:
        """The model file of a managed server."""
        return self.launch.model if self.launch else None


_NO_MODELS: Mapping[str, ModelEntry] = {}


async def select_backend(
    config: BackendConfig, http: HttpClient, models: Mapping[str, ModelEntry] = _NO_MODELS
) -> SelectedBackend:
    """Select the backend from the settings. Raises `BackendChoiceError`."""
    refuse_contradictions(config, models)
    if (catalog := catalog_of(models, config.model)) is not None:
        return await _with_models(config, models, catalog.first)
    if config.url is not None:
        return await _at_url(config, config.url, http)
    if config.gguf is not None:
        program, reason = await asyncio.to_thread(find_program, config, config.gguf)
        return SelectedBackend(program.kind, reason, launch=launch_spec(config, program, config.gguf))
    if config.kind == "embedded":
        return _with_test_model(
            config, "backend.kind is embedded and no model file is configured, so it runs the test model"
        )
    if config.kind is not None:
        return SelectedBackend(
            config.kind, f"backend.kind is {config.kind}; its default address is used", url=_URLS[config.kind]
        )
    if config.model is not None:
        return SelectedBackend("ollama", f"backend.model is {config.model}, without a server or a file", url=OLLAMA)
    found = await find_server(http)
    if found and found.kind in ("llama-server", "ollama"):
        return SelectedBackend(found.kind, "no backend is configured, and this one is running", url=found.url)
    return _with_test_model(
        config, "no backend is configured and no model server is running, so it runs the test model"
    )


async def _with_models(config: BackendConfig, models: Mapping[str, ModelEntry], first: str) -> SelectedBackend:
    file = models[first].gguf
    if file is None:
        return SelectedBackend("ollama", "the configured models are Ollama's", url=config.url or OLLAMA)
    program, reason = await asyncio.to_thread(find_program, config, file)
    specs = launch_specs(config, program, models)
    return SelectedBackend(program.kind, reason, launch=specs[first], specs=specs)


def _with_test_model(config: BackendConfig, reason: str) -> SelectedBackend:
    return SelectedBackend("embedded", reason, launch=launch_spec(config, find_embedded(), TINY_MODEL))


async def _at_url(config: BackendConfig, url: str, http: HttpClient) -> SelectedBackend:
    kind = await identify(url, http)
    if kind is None and (other := await find_other_scheme(url)) is not None:
        speaks = urlsplit(other).scheme
        raise BackendChoiceError(
            f"backend.url {strip_credentials(url)}: the server there speaks {speaks}; use {strip_credentials(other)}"
        )
    if config.kind is not None and kind != "forge-proxy":
        _refuse_other_kind(config.kind, kind, url)
        return SelectedBackend(config.kind, "backend.url is set", url=url)
    if kind == "forge-proxy":
        raise BackendChoiceError(
            f"backend.url {strip_credentials(url)} is a forge-proxy itself; name the model server behind it"
        )
    if kind is None:
        return SelectedBackend(
            "openai",
            "backend.url is set; the server does not respond yet, so an OpenAI-compatible server is assumed",
            url=url,
        )
    return SelectedBackend(kind, f"backend.url is set and {kind} responds there", url=url)


def _refuse_other_kind(named: Kind, found: ServerKind | None, url: str) -> None:
    """Raise `BackendChoiceError` if the server at `url` is not of the configured kind."""
    distinguishable = ("llama-server", "ollama")
    if named in distinguishable and found in distinguishable and found != named:
        raise BackendChoiceError(
            f"backend.kind is {named}, but a server of kind {found} answers at {strip_credentials(url)}; "
            f"use --backend {found}"
        )


def refuse_contradictions(config: BackendConfig, models: Mapping[str, ModelEntry] = _NO_MODELS) -> None:
    """Raise `BackendChoiceError` if settings exclude each other or one is missing."""
    kind = config.kind
    refuse_wrong_models(config, models)
    is_file_named = config.gguf is not None or any(entry.gguf is not None for entry in models.values())
    if config.gguf is not None and config.url is not None:
        raise BackendChoiceError(
            "backend.gguf and backend.url exclude each other: a running server has its model already"
        )
    if config.api_key is not None and config.url is not None and "@" in urlsplit(config.url).netloc:
        raise BackendChoiceError("backend.url holds a user name, and backend.api_key is set: remove one of them")
    if kind == "embedded" and config.url is not None:
        raise BackendChoiceError("backend.url names a running server; remove it to use the embedded backend")
    if config.gguf is not None and kind not in (None, *_MANAGED_KINDS):
        raise BackendChoiceError(f"backend.gguf is for a server that forge-proxy starts; {kind} has its own models")
    if not is_file_named and kind == "llamafile":
        raise BackendChoiceError("the llamafile backend needs --gguf: the model file to serve")
    if config.llama_server.binary is not None and (not is_file_named or kind == "embedded"):
        raise BackendChoiceError(
            "--llama-server (backend.llama_server.binary) needs --gguf: the program is started for a model file only"
        )
    if kind == "openai" and config.url is None:
        raise BackendChoiceError("the openai backend needs --backend-url, such as http://127.0.0.1:8000")
    if kind == "anthropic" and config.api_key is None:
        raise BackendChoiceError("the anthropic backend needs backend.api_key (FORGE_PROXY_BACKEND__API_KEY)")
    if kind == "anthropic" and config.tools == "prompt":
        raise BackendChoiceError("backend.tools: prompt is for models without tool support; remove it")
    if config.gguf is not None and (fault := model_fault(config.gguf)):
        raise BackendChoiceError(f"backend.gguf: {fault}")


def refuse_missing_program(config: BackendConfig, models: Mapping[str, ModelEntry] = _NO_MODELS) -> None:
    """Raise `BackendChoiceError` if the settings need a program to serve models that is not installed."""
    files = [config.gguf, *(entry.gguf for entry in models.values())]
    if file := next((file for file in files if file is not None), None):
        find_program(config, file)
    elif config.kind == "embedded":
        find_embedded()
