"""The `Backend` over an Ollama whose models have configured names and options. Ollama loads and unloads them itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace

from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.backends.ollama.models import add_tag
from forge_proxy.wire.relay import RawCall


@dataclass(frozen=True, slots=True)
class OllamaEntry:
    """Ollama's name of a model, or None for all of its models, and the adapter with the model's options."""

    model: str | None
    ollama: Ollama


class OllamaCatalog:
    """`Backend` adapter for several models. Requests use the names of the catalog."""

    kind = "ollama"

    def __init__(self, entries: Mapping[str, OllamaEntry]) -> None:
        self._entries = entries
        self._any = next(iter(entries.values())).ollama
        self.url = self._any.url

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`."""
        entry = self._entries[call.model.served or ""]
        named = replace(call, resolved=replace(call.model, replacement=entry.model))
        async with aclosing(entry.ollama.stream(named)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`. A model that is not installed is listed with its configured window."""
        return await asyncio.gather(*(self._card(name, entry) for name, entry in self._entries.items()))

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._any.slots()

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`."""
        entry = self._entries.get(model or "")
        return await entry.ollama.context_window(entry.model) if entry else None

    async def read_template(self, model: str | None) -> str | None:
        """See `chat_templates.server.TemplateServer`."""
        entry = self._entries.get(model or "")
        return await entry.ollama.read_template(entry.model or model) if entry else None

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        """See `chat_templates.server.TemplateServer`."""
        entry = self._entries.get(model or "")
        return await entry.ollama.render_template(entry.model or model, body) if entry else None

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._any.count_tokens(call)

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """See `engine.ports.RawRelay`. A model that is not in the catalog keeps its name: it may be one to pull."""
        entry = self._entries.get(call.served or "")
        return self._any.relay(call.for_model(entry.model) if entry and entry.model else call)

    async def health(self) -> Health:
        """See `engine.ports.Backend`."""
        return await self._any.health()

    async def _card(self, name: str, entry: OllamaEntry) -> ModelCard:
        listed = await entry.ollama.models()
        found = next((card for card in listed if card.id == add_tag(entry.model or name)), None)
        return replace(found, id=name) if found else ModelCard(name, entry.ollama.options.num_ctx)
