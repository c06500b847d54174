"""`/admin/v1/compaction`: how histories are shortened that become too long. There is no strategy yet but `none`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from forge_proxy.engine.held import Held

Strategy = Literal["none", "sliding", "tiered"]


class CompactionPolicy(BaseModel):
    """How a history is shortened."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Strategy = Field(
        default="none", description="Only `none` is there: histories are not changed. The others are refused for now."
    )
    threshold: float = Field(default=0.75, gt=0, le=1, description="The share of the budget from which on it is done.")
    keep_recent: int = Field(default=2, ge=0, le=1000, description="How many of the latest turns are never touched.")

    @field_validator("strategy")
    @classmethod
    def _is_there(cls, strategy: Strategy) -> Strategy:
        if strategy != "none":
            raise ValueError(f"{strategy} is not there yet: histories are not shortened, choose none")
        return strategy


class Compaction(BaseModel):
    """The policy, and whether it does anything."""

    policy: CompactionPolicy
    acts: bool = Field(description="Whether histories are shortened at all. Not yet.")
    note: str


class CompactionChoice:
    """The endpoints."""

    def __init__(self, held: Held[CompactionPolicy]) -> None:
        self._held = held

    async def read(self) -> Compaction:
        """The policy, and that it does nothing yet."""
        note = "no strategy but 'none' is there yet; threshold and keep_recent are kept for those to come"
        return Compaction(policy=self._held.now, acts=False, note=note)

    async def choose(self, policy: CompactionPolicy) -> Compaction:
        """Replace the policy."""
        self._held.now = policy
        return await self.read()
