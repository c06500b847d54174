"""Gives an Ollama another window while requests come and go."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.errors import BackendFault
from forge_proxy.engine.switching import Switching


class OllamaWindow:
    """`engine.ports.Resizer`. Models that are in memory are loaded anew, so that a window they have no room for is
    noticed now and not by the next request. Answers that are under way get `drain_seconds` to end.
    """

    def __init__(self, ollama: Ollama, switching: Switching, drain_seconds: float) -> None:
        self._ollama = ollama
        self._switching = switching
        self._drain = drain_seconds
        self._usual = ollama.terms.num_ctx

    async def resize(self, tokens: int | None) -> None:
        """See `engine.ports.Resizer`."""
        window = self._usual if tokens is None else tokens
        await self._switching.switch(lambda: self._load_with(window), drain_seconds=self._drain)

    async def _load_with(self, window: int | None) -> None:
        before = self._ollama.terms
        loaded = [model.name for model in await self._ollama.loaded()]
        self._ollama.terms = replace(before, num_ctx=window)
        try:
            for name in loaded:
                await self._ollama.load(name)
        except BackendFault:
            self._ollama.terms = before
            for name in loaded:
                with suppress(BackendFault):  # the first fault is the one to tell
                    await self._ollama.load(name)
            raise
