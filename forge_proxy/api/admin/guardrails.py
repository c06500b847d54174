"""`/admin/v1/guardrails`: the guardrails and their limits. A change applies from the next request on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from forge_proxy.api.admin.former_names import FormerName, former_field
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.guardrails.policy import ToolPatterns
from forge_proxy.core.sampling import read_switch
from forge_proxy.engine.answer import Engine


class SwitchesChange(BaseModel):
    """Guardrails to switch on or off."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    respond: bool = True
    rescue: bool = True
    validate_calls: bool = Field(default=True, alias="validate")
    retry: bool = True
    loops: bool = True
    repeats: bool = True
    early_end: bool = True


class GuardrailsChange(BaseModel):
    """The changes; what is omitted stays as it is."""

    model_config = ConfigDict(extra="forbid")

    enabled: SwitchesChange = Field(default_factory=SwitchesChange)
    max_retries: int = Field(default=3, ge=0, le=10)
    max_text_nudges: int = Field(default=1, ge=0, le=10)
    text_responses: Literal["auto", "nudge", "accept"] = "auto"
    text_answers: Literal["auto", "nudge", "accept"] = Field(
        default="auto", description="The former name of `text_responses`, accepted until 0.3.", deprecated=True
    )
    terminal_tools: ToolPatterns = ()
    on_exhausted: Literal["deliver", "error"] = "deliver"
    on_loop: Literal["cut", "report"] = "cut"
    constrain_retries: Literal["auto", "always", "never"] = "auto"
    drafts: int = Field(default=1, ge=1, le=5)
    grounding: Annotated[
        Literal["off", "report", "retry"],
        BeforeValidator(read_switch, json_schema_input_type=Literal["off", "report", "retry", False]),
    ] = "off"
    answer_grounding: Annotated[
        Literal["auto", "off", "report", "retry"],
        BeforeValidator(read_switch, json_schema_input_type=Literal["auto", "off", "report", "retry", False]),
    ] = "auto"
    retry_temperature: Literal["auto", "unset"] | Annotated[float, Field(ge=0, le=2)] = "auto"
    on_repeat: Literal["auto", "retry", "accept"] = "auto"
    on_early_end: Literal["auto", "retry", "accept"] = "auto"


class GuardrailsInfo(GuardPolicy):
    """The guardrails in force."""

    text_answers = former_field("text_responses", str)


def to_guardrails_info(policy: GuardPolicy) -> GuardrailsInfo:
    """Return the API's representation of the guardrails."""
    return GuardrailsInfo.model_validate(policy.model_dump(by_alias=True))


class GuardrailEndpoints:
    """The endpoints of `/guardrails`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._warn_of_text_answers = FormerName("text_answers", "text_responses")

    async def read(self) -> GuardrailsInfo:
        """Show the guardrails. A request can narrow them for itself (`x-forge-guardrails`)."""
        return to_guardrails_info(self._engine.policies.guardrails)

    async def change(self, change: GuardrailsChange) -> GuardrailsInfo:
        """Change some of them for all later requests."""
        changes = change.model_dump(exclude_unset=True)
        if "text_answers" in changes:
            self._warn_of_text_answers()
            changes = {"text_responses": changes.pop("text_answers"), **changes}
        now = self._engine.policies.guardrails.model_dump()
        merged = {**now, **changes, "enabled": {**now["enabled"], **changes.get("enabled", {})}}
        await self._engine.apply(guardrails=GuardPolicy.model_validate(merged))
        return await self.read()
