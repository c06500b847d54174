"""`/admin/v1/retries`: how many retries of invalid calls became valid, by which `guardrails.constrain_retries: auto`
decides when to constrain them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from forge_proxy.engine.answer import Engine


class RetryStats(BaseModel):
    """The statistics of one model."""

    model: str
    free: int = Field(description="Retries of invalid calls in which the model was free.")
    free_valid: int = Field(description="The number of them that became valid.")
    constrained: int = Field(description="Retries of invalid calls that were limited to calls of the offered tools.")
    constrained_valid: int = Field(description="The number of them that became valid.")
    first_retry: Literal["free", "constrained"] = Field(description="How the model's next first retries are made.")


class RetryStatsList(BaseModel):
    """The statistics of all models."""

    object: Literal["list"] = "list"
    constrain_retries: Literal["auto", "always", "never"]
    data: list[RetryStats]


class RetryEndpoints:
    """The endpoints of `/retries`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._history = engine.retry_history

    async def read(self) -> RetryStatsList:
        """Show the statistics of each model since the start of the daemon."""
        setting = self._engine.policies.guardrails.constrain_retries
        data = [
            RetryStats(
                model=model,
                free=record.free,
                free_valid=record.free_valid,
                constrained=record.constrained,
                constrained_valid=record.constrained_valid,
                first_retry=(
                    "constrained" if setting == "always" or (setting == "auto" and record.is_constrained) else "free"
                ),
            )
            for model, record in self._history.records.items()
        ]
        return RetryStatsList(constrain_retries=setting, data=data)

    async def forget_all(self) -> RetryStatsList:
        """Reset the statistics of all models."""
        self._history.forget()
        return await self.read()

    async def forget(self, name: str) -> RetryStatsList:
        """Reset the statistics of one model."""
        self._history.forget(name)
        return await self.read()
