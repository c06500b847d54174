"""Builds the adapter of the selected backend."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from forge_proxy.backends.config import BackendConfig
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.llama_server.catalog import CatalogLlama
from forge_proxy.backends.llama_server.managed import ManagedLlama
from forge_proxy.backends.llama_server.manager import ServerManager
from forge_proxy.backends.ollama import Ollama
from forge_proxy.backends.ollama_catalog import OllamaCatalog, OllamaEntry
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.backends.selection import SelectedBackend
from forge_proxy.engine.ports import Backend, Observer
from forge_proxy.settings import Settings

if TYPE_CHECKING:
    from forge_proxy.backends.anthropic import AnthropicMessages


def build_backend(
    choice: SelectedBackend,
    settings: Settings,
    http: HttpClient,
    manager: ServerManager | None,
    ollamas: Mapping[str, OllamaEntry],
    closing: AsyncExitStack,
) -> Backend:
    """Return the adapter of the selected backend. `closing` closes what it opens."""
    if manager is not None:
        return CatalogLlama(manager, choice.specs) if choice.specs else ManagedLlama(manager)
    if choice.kind == "anthropic":
        messages = _anthropic(choice, settings.backend)
        closing.push_async_callback(messages.close)
        return messages
    if ollamas:
        return OllamaCatalog(ollamas) if settings.models else ollamas[""].ollama
    health = "/health" if choice.kind == "llama-server" else None
    config = settings.backend
    return OpenAICompatible(
        choice.url or "", http, api_key=_key(config), health_path=health, max_response=config.max_response,
        kind=choice.kind,
    )  # fmt: skip


def build_ollamas(
    choice: SelectedBackend, settings: Settings, http: HttpClient, observe: Observer
) -> dict[str, OllamaEntry]:
    """Return one adapter per model of the catalog, or a single one under the name "" if there is no catalog.

    Returns none if the backend is not an Ollama.
    """
    config = settings.backend

    def adapter(context: int | None) -> Ollama:
        options = config.ollama if context is None else config.ollama.model_copy(update={"num_ctx": context})
        key, max_response = _key(config), config.max_response
        return Ollama(choice.url or "", http, options, observe, api_key=key, max_response=max_response)

    if choice.kind != "ollama":
        return {}
    listed = {
        name: OllamaEntry(entry.ollama or name, adapter(entry.context)) for name, entry in settings.models.items()
    }
    return listed or {"": OllamaEntry(None, adapter(None))}


def _anthropic(choice: SelectedBackend, config: BackendConfig) -> AnthropicMessages:
    from forge_proxy.backends.anthropic import AnthropicMessages  # slow import, over a second

    return AnthropicMessages(
        choice.url or "",
        api_key=_key(config) or "",
        connect_seconds=config.connect_seconds,
        silence_seconds=config.silence_seconds,
        max_response=config.max_response,
    )


def _key(config: BackendConfig) -> str | None:
    return config.api_key.get_secret_value() if config.api_key else None
