"""What our own tool adds to the prompts of a backend, so that a caller is told of the prompt without it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.errors import BackendFault
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.compat import CompatibleBackend

_REMEMBERED = 256
_ANY: list[Json] = [{"role": "user", "content": "."}]
"""Tools are written before the conversation or in it, but never because of what is said."""


class RespondOverhead:
    """Asked at the end of an answer, counts once for each set of tools of a model."""

    def __init__(self, backend: CompatibleBackend) -> None:
        self._backend = backend
        self._added: OrderedDict[tuple[str | None, tuple[str, ...]], int] = OrderedDict()

    async def added_to(self, call: ModelCall) -> int:
        """Tokens that the prompt of `call` has because of our tool; 0 where the backend cannot count."""
        if call.respond is None:
            return 0
        key = (call.model or call.request.model, (*(tool.name for tool in call.request.tools), call.respond.name))
        if key not in self._added:
            self._added[key] = await self._count(call)
            if len(self._added) > _REMEMBERED:
                self._added.popitem(last=False)
        return self._added[key]

    async def _count(self, call: ModelCall) -> int:
        request = replace(call.request, body={**call.request.body, "messages": _ANY})
        bare = replace(call, request=request, added=())
        try:
            with_it = await self._backend.count_tokens(bare)
            without = await self._backend.count_tokens(replace(bare, respond=None)) if with_it else None
        except BackendFault:  # the answer is complete: it is not going to fail because of a number
            return 0
        return max(0, with_it - without) if with_it and without else 0
