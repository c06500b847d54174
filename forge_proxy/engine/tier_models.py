"""Tiers as models: a client that requests `forge-reasoning` gets the model and the sampling of that tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forge_proxy.core.chat import ChatRequest
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.wire.backends.openai.reasoning import read_think


@dataclass(frozen=True, slots=True)
class TierModel:
    """A name under which clients request the model of a tier."""

    name: str
    model: str | None = None
    """None for the model of requests without a name."""
    sampling: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Fields that a request gets unless it has them."""
    thinking: bool | None = None
    is_listed: bool = True
    """Whether the settings set the tier. Otherwise the name is resolved, too, unless a model has it, but not listed."""

    def complete(self, request: ChatRequest) -> ChatRequest:
        """Return the request with the values of the tier for what its client has left open."""
        body = request.body
        added = {name: value for name, value in self.sampling.items() if body.get(name) is None}
        if self.thinking is not None and read_think(body) is None and "thinking" not in request.anthropic:
            kwargs = body.get("chat_template_kwargs")
            given = kwargs if is_object(kwargs) else {}
            added["chat_template_kwargs"] = {"enable_thinking": self.thinking, **given}
        return replace(request, body={**body, **added}) if added else request
