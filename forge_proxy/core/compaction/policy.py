"""The `compaction` section of the configuration: how a history that exceeds the budget is compacted."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.compaction.sliding import SlidingWindowCompact
from forge_proxy.core.compaction.strategy import PlannedCompact
from forge_proxy.core.compaction.tiered import TieredCompact

StrategyName: TypeAlias = Literal["none", "sliding", "tiered"]


class CompactionPolicy(BaseModel):
    """How a history is compacted if `budget.overflow` is `compact`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: StrategyName = Field(
        default="tiered",
        description="`tiered`: cut old corrections and results first, old reasoning and text last, calls never;"
        " `sliding`: cut everything but the latest turns; `none`: cut nothing and reject a prompt that exceeds the"
        " budget.",
    )
    threshold: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="The share of the budget to compact to; the rest is for the response. A history within the budget"
        " is not changed.",
    )
    keep_recent: int = Field(
        default=2, ge=1, le=1000, description="Number of the model's latest turns that are never cut."
    )

    def target_tokens(self, budget: int) -> int:
        """Return the number of tokens to which a history is compacted."""
        return int(budget * self.threshold)

    @property
    def planner(self) -> PlannedCompact | None:
        """The strategy object; None if `strategy` is `none`."""
        match self.strategy:
            case "none":
                return None
            case "sliding":
                return SlidingWindowCompact(self.keep_recent)
            case "tiered":
                return TieredCompact(self.keep_recent)
