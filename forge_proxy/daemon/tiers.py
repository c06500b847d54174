"""Builds the models that clients request by the name of a tier."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.core.tasks.models import CapabilityTier
from forge_proxy.engine.tier_models import TierModel
from forge_proxy.tasks.config import TiersConfig


def build_tier_models(tiers: TiersConfig) -> Sequence[TierModel]:
    """Return the tiers as models, in the order of the settings."""
    return [_build(tier, tiers) for tier in CapabilityTier]


def _build(tier: CapabilityTier, tiers: TiersConfig) -> TierModel:
    config = tiers.of(tier)
    return TierModel(tier.model_name, config.model, config.sampling, config.thinking, is_listed=tiers.sets(tier))
