"""Changes Ollama's context window while the daemon runs; each model of a catalog has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from forge_proxy.backends.ollama import Ollama
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.wire.backends.ollama.models import add_tag


class OllamaWindow:
    """`engine.ports.Resizer`. Reloads the loaded models at once, so that a window that does not fit into memory fails
    here and not in the next request. Running responses get `drain_seconds` to finish. With `only`, affects one model.
    """

    def __init__(
        self, ollama: Ollama, switching: BackendSwitcher, drain_seconds: float, only: str | None = None
    ) -> None:
        self._ollama = ollama
        self._switching = switching
        self._drain = drain_seconds
        self._only = only
        self._configured = ollama.options.num_ctx

    def served(self) -> Sequence[str | None]:
        """See `engine.ports.Resizer`."""
        return (None,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """See `engine.ports.Resizer`."""
        window = self._configured if tokens is None else tokens
        await self._switching.switch(lambda: self._load_with(window), drain_seconds=self._drain)

    async def _load_with(self, window: int | None) -> None:
        before = self._ollama.options
        loaded = [model.name for model in await self._ollama.loaded() if self._is_affected(model.name)]
        self._ollama.options = replace(before, num_ctx=window)
        try:
            for name in loaded:
                await self._ollama.load(name)
        except BackendFault:
            self._ollama.options = before
            for name in loaded:
                with suppress(BackendFault):  # the first fault is reported
                    await self._ollama.load(name)
            raise

    def _is_affected(self, name: str) -> bool:
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
