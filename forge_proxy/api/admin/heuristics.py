"""`/admin/v1/guardrails/heuristics`: what was learned about the heuristics on each model.

The settings `text_responses`, `on_repeat`, `on_early_end` and `answer_grounding` depend on it if they are `auto`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.engine.answer import Engine


class HeuristicStats(BaseModel):
    """The statistics of one heuristic on one model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "qwen3:4b",
                    "heuristic": "early_end",
                    "cases": 9,
                    "corrections": 9,
                    "effective": 4,
                    "share": 0.444,
                    "setting": "retry",
                }
            ]
        }
    )

    model: str
    heuristic: Heuristic = Field(
        description="`text_responses`: plain text although a call was possible. `repeats`: a call that was already"
        " answered. `early_end`: a final answer before the tools that the user asked for were called."
        " `answer_grounding`: a final answer that does not agree with the results of tools."
    )
    cases: int = Field(description="Responses to which the heuristic applied.")
    corrections: int = Field(description="The number of them that were retried.")
    effective: int = Field(
        description="The number of these retries that led to a new call with a usable result, or to another answer."
    )
    share: float | None = Field(description="effective / corrections.")
    setting: Literal["retry", "accept"] = Field(description="How such responses of the model are handled now.")


class HeuristicStatsList(BaseModel):
    """The statistics of all models."""

    object: Literal["list"] = "list"
    data: list[HeuristicStats]


class HeuristicEndpoints:
    """The endpoints of `/guardrails/heuristics`. They show the policy of the daemon, which a request can narrow."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self) -> HeuristicStatsList:
        """Show the statistics of each heuristic on each model since the start of the daemon."""
        policy, learned = self._engine.policies.guardrails, self._engine.learned
        return HeuristicStatsList(
            data=[
                HeuristicStats(
                    model=model,
                    heuristic=heuristic,
                    cases=record.cases,
                    corrections=record.corrections,
                    effective=record.effective,
                    share=record.share,
                    setting=learned.effective_setting(policy, model, heuristic),
                )
                for model, records in learned.records.items()
                for heuristic, record in records.items()
            ]
        )

    async def forget_all(self) -> HeuristicStatsList:
        """Reset the statistics of all models."""
        self._engine.learned.forget()
        return await self.read()

    async def forget(self, name: str) -> HeuristicStatsList:
        """Reset the statistics of one model."""
        self._engine.learned.forget(name)
        return await self.read()
