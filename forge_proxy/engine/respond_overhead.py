"""Counts the tokens that the `respond` tool adds to a prompt, so that the usage sent to the client excludes them."""

from __future__ import annotations

from dataclasses import replace

from cachetools import LRUCache

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.chat import ModelCall
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.compat import CompatibleBackend

_CACHE_SIZE = 256
_ANY: list[Json] = [{"role": "user", "content": "."}]
"""A minimal conversation: the tokens of the tools do not depend on the messages."""


class RespondOverhead:
    """Counts once for each model and set of tools, at the end of a response."""

    def __init__(self, backend: CompatibleBackend) -> None:
        self._backend = backend
        self._added: LRUCache[tuple[str | None, tuple[str, ...]], int] = LRUCache(_CACHE_SIZE)

    async def count_added(self, call: ModelCall) -> int:
        """Return the tokens that the `respond` tool adds to the prompt of `call`; 0 if the backend cannot count."""
        if call.respond is None:
            return 0
        key = (call.model.served, (*(tool.name for tool in call.request.tools), call.respond.name))
        if key not in self._added:
            self._added[key] = await self._count(call)
        return self._added[key]

    async def _count(self, call: ModelCall) -> int:
        request = replace(call.request, body={**call.request.body, "messages": _ANY})
        bare = replace(call, request=request, added=())
        try:
            with_it = await self._backend.count_tokens(bare)
            without = await self._backend.count_tokens(replace(bare, respond=None)) if with_it else None
        except BackendFault:  # the response is complete; a missing count must not fail it
            return 0
        return max(0, with_it - without) if with_it and without else 0
