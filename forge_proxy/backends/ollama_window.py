"""Gives an Ollama another window while requests come and go; each model of a catalog its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.errors import BackendFault
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.wire.backends.ollama.models import add_tag


class OllamaWindow:
    """`engine.ports.Resizer`. Models that are in memory are loaded anew, so that a window they have no room for is
    noticed now and not by the next request. Answers that are under way get `drain_seconds` to end. With a model named
    it is this one alone.
    """

    def __init__(
        self, ollama: Ollama, switching: BackendSwitcher, drain_seconds: float, only: str | None = None
    ) -> None:
        self._ollama = ollama
        self._switching = switching
        self._drain = drain_seconds
        self._only = only
        self._usual = ollama.terms.num_ctx

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        return (None,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`."""
        window = self._usual if tokens is None else tokens
        await self._switching.switch(lambda: self._load_with(window), drain_seconds=self._drain)

    async def _load_with(self, window: int | None) -> None:
        before = self._ollama.terms
        loaded = [model.name for model in await self._ollama.loaded() if self._is_ours(model.name)]
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

    def _is_ours(self, name: str) -> bool:
        return self._only is None or name == add_tag(self._only)


class OllamaWindows:
    """`engine.ports.Resizer` of a catalog, by the names in it."""

    def __init__(self, windows: Mapping[str, OllamaWindow]) -> None:
        self._windows = windows

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        return tuple(self._windows)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`."""
        if model is not None:
            await self._windows[model].resize(tokens)
