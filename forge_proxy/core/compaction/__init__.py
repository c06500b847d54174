"""Compacts histories that exceed the context budget, without a model: message types decide what is cut first. Pure.

A strategy plans cuts, each with its reason, and the plan is then applied, so a preview shows exactly what will happen.
Every call that had a result keeps one, and every result keeps its call.
"""

from forge_proxy.core.compaction.cuts import CompactionPlan, Cut, CutKind
from forge_proxy.core.compaction.sliding import SlidingWindowCompact
from forge_proxy.core.compaction.strategy import CompactStrategy, NoCompact, PlannedCompact
from forge_proxy.core.compaction.tiered import TieredCompact

__all__ = [
    "CompactStrategy",
    "CompactionPlan",
    "Cut",
    "CutKind",
    "NoCompact",
    "PlannedCompact",
    "SlidingWindowCompact",
    "TieredCompact",
]
