"""The `compaction` section of the configuration: how a caller's history is shortened that is over the budget."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from forge_proxy.core.compaction.sliding import SlidingWindowCompact
from forge_proxy.core.compaction.strategy import PlannedCompact
from forge_proxy.core.compaction.tiered import TieredCompact

StrategyName: TypeAlias = Literal["none", "sliding", "tiered"]


class CompactionPolicy(BaseModel):
    """How a history is shortened, where `budget.overflow` is `compact`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: StrategyName = Field(
        default="tiered",
        description="tiered: old corrections and results first, old thoughts and texts last, calls never; sliding: all"
        " but the latest turns; none: nothing, what is over the budget is refused.",
    )
    threshold: float = Field(
        default=0.75,
        gt=0,
        le=1,
        description="The share of the budget that is aimed at: the rest is for the answer. A history within the budget"
        " is not touched.",
    )
    keep_recent: int = Field(
        default=2, ge=1, le=1000, description="How many of the latest turns of the model are never touched."
    )

    @property
    def planner(self) -> PlannedCompact | None:
        """The strategy; None where there is none."""
        match self.strategy:
            case "none":
                return None
            case "sliding":
                return SlidingWindowCompact(self.keep_recent)
            case "tiered":
                return TieredCompact(self.keep_recent)
