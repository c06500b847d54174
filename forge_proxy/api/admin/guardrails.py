"""`/admin/v1/guardrails`: the guardrails and their limits. A change applies from the next request on."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.engine.answer import Engine


class SwitchesChange(BaseModel):
    """Guardrails to switch on or off."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    respond: bool = True
    rescue: bool = True
    validate_calls: bool = Field(default=True, alias="validate")
    retry: bool = True
    loops: bool = True


class GuardrailsChange(BaseModel):
    """The changes; what is omitted stays as it is."""

    model_config = ConfigDict(extra="forbid")

    enabled: SwitchesChange = Field(default_factory=SwitchesChange)
    max_retries: int = Field(default=3, ge=0, le=10)
    max_text_nudges: int = Field(default=1, ge=0, le=10)
    text_answers: Literal["auto", "nudge", "accept"] = "auto"
    on_exhausted: Literal["deliver", "error"] = "deliver"
    on_loop: Literal["cut", "report"] = "cut"


class GuardrailEndpoints:
    """The endpoints of `/guardrails`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self) -> GuardPolicy:
        """Show the guardrails. A request can narrow them for itself (`x-forge-guardrails`)."""
        return self._engine.policies.guardrails

    async def change(self, change: GuardrailsChange) -> GuardPolicy:
        """Change some of them for all later requests."""
        changes = change.model_dump(exclude_unset=True)
        now = self._engine.policies.guardrails.model_dump()
        merged = {**now, **changes, "enabled": {**now["enabled"], **changes.get("enabled", {})}}
        await self._engine.apply(guardrails=GuardPolicy.model_validate(merged))
        return await self.read()
