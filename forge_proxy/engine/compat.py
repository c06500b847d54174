"""Asks a backend the way it wants to be asked. Requests go out as their caller wrote them; what the backend refuses for
its form is written in the dialect that it takes and asked again, before anything of an answer has come.

What was learned is kept: of roles for each model, of schemas for each set of tools, so that later turns are written the
same way at once and the prefix cache matches.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

import orjson

from forge_proxy.core.chat import ModelCall
from forge_proxy.core.dialect import Dialect, UnsupportedFeature
from forge_proxy.core.errors import BackendError, ContextOverflow, LimitTooLarge, RequestFormatRejected, UnreadCall
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.events import RequestRewritten
from forge_proxy.engine.ports import Backend, Observer
from forge_proxy.engine.tool_bisect import RejectedTool, find_guilty

_REMEMBERED = 256
_NOT_TAKEN = frozenset({400, 422, 500, 501})
"""Statuses of servers that do not know a field, or cannot make a grammar of it."""


class CompatibleBackend:
    """One backend, and what it was found to want. `usual` is the dialect of the settings."""

    def __init__(self, backend: Backend, observe: Observer, usual: Dialect) -> None:
        self._backend = backend
        self._observe = observe
        self._usual = usual
        self._dialects: OrderedDict[str | None, Dialect] = OrderedDict()
        self._plain: OrderedDict[bytes, RejectedTool | None] = OrderedDict()
        """Sets of tools that are sent with plain schemas, and who was to blame where that did not help either."""

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`. Raises `ToolsRejected` as well."""
        call = self._written(call)
        dialect = call.dialect
        begun = False
        while True:
            try:
                async with aclosing(self._backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        if not begun and not chunk.pending_bytes:
                            begun = True
                            self._learn(call, dialect)
                        yield chunk
            except LimitTooLarge as refusal:
                if begun or call.room is not None:
                    raise
                call = replace(call, room=refusal.room or 0)
            except BackendError as refusal:
                if begun:
                    raise
                call = await self._rewritten(call, refusal)
            else:
                return

    def tell_tools(self, model: str, mode: Literal["native", "prompt"]) -> None:
        """From now on tell this model of tools in this way, where the settings leave that open."""
        if self._usual.tools == "auto":
            known = self._dialects.get(model, self._usual)
            self._keep_dialect(model, replace(known, tools="auto" if mode == "native" else mode))

    def tool_mode(self, model: str | None) -> Literal["native", "prompt"]:
        """How this model, by the name that the backend knows, is told of tools."""
        return "prompt" if self._dialects.get(model, self._usual).tools == "prompt" else "native"

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._backend.count_tokens(self._written(call))

    def _written(self, call: ModelCall) -> ModelCall:
        """The call in the dialect that is known to be taken."""
        dialect = self._dialects.get(_model(call), self._usual)
        if self._plain and self._tools(call) in self._plain:
            dialect = replace(dialect, plain_schemas=True)
        return call if dialect is call.dialect else replace(call, dialect=dialect)

    async def _rewritten(self, call: ModelCall, refusal: BackendError) -> ModelCall:
        """The call in a dialect that meets what it was refused for. Raises the refusal where there is none."""
        if call.demanded and refusal.status in _NOT_TAKEN and not isinstance(refusal, UnreadCall | ContextOverflow):
            return replace(call, demanded=())
        if not isinstance(refusal, RequestFormatRejected):
            raise refusal
        if refusal.need.is_of_tools and not call.request.body.get("tools"):
            raise refusal
        dialect = call.dialect.meeting(refusal.need)
        if dialect != call.dialect:
            return replace(call, dialect=dialect)
        if refusal.need is not UnsupportedFeature.PLAIN_SCHEMAS:
            raise refusal
        tools = self._tools(call)
        blame = self._plain.get(tools) or await find_guilty(self._backend, call)
        self._keep_plain(tools, blame)
        raise blame.error(refusal)

    def _learn(self, call: ModelCall, began_with: Dialect) -> None:
        """Keep the dialect in which a call was answered."""
        if call.dialect == began_with:
            return
        if call.dialect.plain_schemas and not began_with.plain_schemas:
            self._keep_plain(self._tools(call), None)
        self._keep_dialect(_model(call), replace(call.dialect, plain_schemas=False))
        self._observe(RequestRewritten(_model(call), call.dialect.changes))

    def _keep_dialect(self, model: str | None, dialect: Dialect) -> None:
        self._dialects[model] = dialect
        if len(self._dialects) > _REMEMBERED:
            self._dialects.popitem(last=False)

    def _keep_plain(self, tools: bytes, blame: RejectedTool | None) -> None:
        self._plain[tools] = blame
        if len(self._plain) > _REMEMBERED:
            self._plain.popitem(last=False)

    def _tools(self, call: ModelCall) -> bytes:
        """What tells one set of tools of a model from another."""
        try:
            offered = orjson.dumps([_model(call), call.request.body.get("tools")])
        except TypeError:  # nested too deeply: the backend is not going to be asked either
            return b""
        return hashlib.blake2b(offered, digest_size=16).digest()


def _model(call: ModelCall) -> str | None:
    return call.model or call.request.model
