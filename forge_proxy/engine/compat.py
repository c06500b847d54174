"""Adapts requests to the format that a backend accepts.

Requests are sent as the client wrote them. A request that the backend rejects because of its format is rewritten in
another dialect and retried, before any part of a response has arrived. The dialect is remembered, for roles by model
and for schemas by set of tools, so that later turns are written the same way at once and the prefix cache matches. The
form of constrained decoding that a server accepts is remembered as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

import orjson
from cachetools import FIFOCache

from forge_proxy.core.backend_errors import (
    BackendError,
    ContextOverflow,
    LimitTooLarge,
    RequestFormatRejected,
    UnreadCall,
)
from forge_proxy.core.chat import Constraint, ModelCall
from forge_proxy.core.dialect import Dialect, UnsupportedFeature
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.events import RequestRewritten
from forge_proxy.engine.ports import Backend, Observer
from forge_proxy.engine.tool_bisect import RejectedTool, find_rejected_tool

_CACHE_SIZE = 256
_REJECTION_STATUSES = frozenset({400, 422, 500, 501})
"""Statuses of servers that do not know a field or cannot build a grammar from it."""
_WEAKER: Mapping[Constraint, Constraint] = {"grammar": "schema", "schema": "tool_choice", "tool_choice": "none"}
"""The constraint to try after a rejected one."""


class CompatibleBackend:
    """One backend and the dialects that it is known to require. `usual` is the dialect of the settings."""

    def __init__(self, backend: Backend, observe: Observer, usual: Dialect) -> None:
        self._backend = backend
        self._observe = observe
        self._usual = usual
        self._dialects: FIFOCache[str | None, Dialect] = FIFOCache(_CACHE_SIZE)
        self._plain: FIFOCache[bytes, RejectedTool | None] = FIFOCache(_CACHE_SIZE)
        """Sets of tools that are sent with plain schemas, and the rejected tool if even those were rejected."""
        self._constraints: FIFOCache[str | bytes, Constraint] = FIFOCache(_CACHE_SIZE)
        """Accepted constraints: of models, by their capability cards, and of sets of tools, by rejected requests."""

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`. Raises `ToolsRejected` as well."""
        call = first = self.adapt(call)
        begun = False
        while True:
            try:
                async with aclosing(self._backend.stream(call)) as chunks:
                    async for chunk in chunks:
                        if not begun and not chunk.pending_bytes:
                            begun = True
                            self._learn(call, first)
                        yield chunk
            except LimitTooLarge as refusal:
                if begun or call.room is not None:
                    raise
                call = replace(call, room=refusal.room or 0)
            except BackendError as refusal:
                rewritten = None if begun else await self._rewrite(call, refusal)
                if rewritten is None:
                    raise
                call = rewritten
            else:
                return

    def set_tool_mode(self, model: str, mode: Literal["native", "prompt"]) -> None:
        """Set how tools are presented to this model from now on, unless the settings determine it."""
        if self._usual.tools == "auto":
            known = self._dialects.get(model, self._usual)
            self._dialects[model] = replace(known, tools="auto" if mode == "native" else mode)

    def set_constraint(self, model: str, constraint: Constraint) -> None:
        """Set how this model is limited to calls, for sets of tools with which no request was rejected."""
        self._constraints[model] = constraint

    def find_constraint(self, call: ModelCall) -> Constraint:
        """Return what limits this call to its `required_tools`, as far as is known."""
        if not call.required_tools:
            return "none"
        of_model = self._constraints.get(call.model.served or "", call.constraint)
        known = self._constraints.get(self._tools_digest(call))
        if known is None and of_model == "schema" and call.grammar_tool and self._usual.llama_cpp:
            return "grammar"
        return known or of_model

    def tool_mode(self, model: str | None) -> Literal["native", "prompt"]:
        """Return how tools are presented to this model. `model` is the name that the backend knows."""
        return "prompt" if self._dialects.get(model, self._usual).tools == "prompt" else "native"

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`."""
        return await self._backend.count_tokens(self.adapt(call))

    def adapt(self, call: ModelCall) -> ModelCall:
        """Return the call in the dialect that the backend is known to accept."""
        dialect = self._dialects.get(call.model.served, self._usual)
        if self._plain and self._tools_digest(call) in self._plain:
            dialect = replace(dialect, plain_schemas=True)
        if call.required_tools:
            return self._with_constraint(replace(call, dialect=dialect), self.find_constraint(call))
        return call if dialect is call.dialect else replace(call, dialect=dialect)

    def _with_constraint(self, call: ModelCall, constraint: Constraint) -> ModelCall:
        """Return the call with this constraint, or without one if the constraint cannot force a call."""
        has_no_choice = call.dialect.tools == "prompt" or call.request.tool_choice.mode == "required"
        if constraint == "none" or (constraint == "tool_choice" and has_no_choice):
            return replace(call, required_tools=(), constraint="none")
        return replace(call, constraint=constraint)

    async def _rewrite(self, call: ModelCall, refusal: BackendError) -> ModelCall | None:
        """Return the call in a dialect that avoids the reason of the refusal; None if there is none.

        The caller raises the refusal: raised here, it would refer to itself by this frame. Raises `ToolsRejected`.
        """
        if (
            call.required_tools
            and refusal.status in _REJECTION_STATUSES
            and not isinstance(refusal, UnreadCall | ContextOverflow)
            and not (isinstance(refusal, RequestFormatRejected) and refusal.need is UnsupportedFeature.NO_SAMPLING)
        ):
            return self._with_constraint(call, _WEAKER[call.constraint])
        if not isinstance(refusal, RequestFormatRejected):
            return None
        if refusal.need.is_about_tools and not call.request.body.get("tools"):
            return None
        dialect = call.dialect.avoid(refusal.need)
        if dialect != call.dialect:
            return replace(call, dialect=dialect)
        if refusal.need is not UnsupportedFeature.PLAIN_SCHEMAS:
            return None
        tools = self._tools_digest(call)
        rejected = self._plain.get(tools) or await find_rejected_tool(self._backend, call)
        self._plain[tools] = rejected
        raise rejected.error(refusal)

    def _learn(self, call: ModelCall, first: ModelCall) -> None:
        """Remember the form in which the backend accepted a call. `first` is its form before any was rejected."""
        if call.constraint != first.constraint:
            requires_anyway = call.request.tool_choice.mode == "required" and call.constraint == "none"
            self._constraints[self._tools_digest(call)] = "tool_choice" if requires_anyway else call.constraint
        if call.dialect == first.dialect:
            return
        if call.dialect.plain_schemas and not first.dialect.plain_schemas:
            self._plain[self._tools_digest(call)] = None
        self._dialects[call.model.served] = replace(call.dialect, plain_schemas=False)
        self._observe(RequestRewritten(call.model.served, call.dialect.changes))

    def _tools_digest(self, call: ModelCall) -> bytes:
        """Return a digest that identifies a model's set of tools."""
        try:
            offered = orjson.dumps([call.model.served, call.request.body.get("tools")])
        except TypeError:  # nested too deeply for orjson: the request will not be sent either
            return b""
        return hashlib.blake2b(offered, digest_size=16).digest()
