"""`/admin/v1/text-responses`: statistics of the plain-text responses of each model, by which
`guardrails.text_responses: auto` decides whether to nudge.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path
from pydantic import BaseModel, Field

from forge_proxy.api.admin.former_names import former_field
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.engine.answer import Engine

_TEXT = Heuristic.TEXT_RESPONSES


class TextResponseStats(BaseModel):
    """The statistics of one model."""

    model: str
    texts: int = Field(description="Plain-text responses where a tool call was possible.")
    nudges: int = Field(description="The number of them that were retried.")
    calls: int = Field(description="The number of these retries that led to a new call with a usable result.")
    share: float | None = Field(description="calls / nudges.")
    effective: Literal["nudge", "accept"] = Field(description="The setting in force for the model.")
    now = former_field("effective", str)


class TextResponseStatsList(BaseModel):
    """The statistics of all models."""

    object: Literal["list"] = "list"
    text_responses: Literal["auto", "nudge", "accept"]
    data: list[TextResponseStats]
    text_answers = former_field("text_responses", str)


class TextResponseEndpoints:
    """The endpoints of `/text-responses`. They show the policy of the daemon, which a request can narrow for itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._learned = engine.learned

    async def read(self) -> TextResponseStatsList:
        """Show the statistics of each model since the start of the daemon."""
        policy = self._engine.policies.guardrails
        data = [
            TextResponseStats(
                model=model,
                texts=record.cases,
                nudges=record.corrections,
                calls=record.effective,
                share=record.share,
                effective="accept" if self._learned.effective_setting(policy, model, _TEXT) == "accept" else "nudge",
            )
            for model, records in self._learned.records.items()
            if (record := records.get(_TEXT)) is not None
        ]
        return TextResponseStatsList(text_responses=policy.text_responses, data=data)

    async def forget_all(self) -> TextResponseStatsList:
        """Reset the statistics of all models."""
        self._learned.forget(heuristics=[_TEXT])
        return await self.read()

    async def forget(self, name: Annotated[str, Path(description="The name of the model.")]) -> TextResponseStatsList:
        """Reset the statistics of one model."""
        self._learned.forget(name, [_TEXT])
        return await self.read()
