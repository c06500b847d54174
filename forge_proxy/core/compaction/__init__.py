"""Compacts histories that exceed the context budget, without a model: message types decide what is cut first. Pure.

A strategy plans cuts, each with its reason, and the plan is applied: what is shown beforehand is what is done. In what
comes out every call has a result and every result its call, wherever that was so before.
"""

from forge_proxy.core.compaction.cuts import Cut, CutKind, Plan
from forge_proxy.core.compaction.sliding import SlidingWindowCompact
from forge_proxy.core.compaction.strategy import CompactStrategy, NoCompact, PlannedCompact
from forge_proxy.core.compaction.tiered import TieredCompact

__all__ = [
    "CompactStrategy",
    "Cut",
    "CutKind",
    "NoCompact",
    "Plan",
    "PlannedCompact",
    "SlidingWindowCompact",
    "TieredCompact",
]
