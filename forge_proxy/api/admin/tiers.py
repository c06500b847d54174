"""`/admin/v1/tiers`: which model each tier of calls has."""

from __future__ import annotations

from pydantic import BaseModel, Field

from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.tasks.models import CapabilityTier
from forge_proxy.engine.answer import Engine
from forge_proxy.tasks.config import TierConfig, TiersConfig


class TierInfo(BaseModel):
    """A tier and its model."""

    tier: CapabilityTier
    name: str = Field(description="The name under which clients request its model.")
    is_listed: bool = Field(description="Whether the settings set the tier, so that `/v1/models` lists it.")
    served: str | None = Field(description="The model that serves it; null if that is not known.")
    window: int | None = Field(description="The context budget of that model in tokens; null if it is not known.")
    settings: TierConfig


class TierInfoList(BaseModel):
    """The tiers."""

    data: list[TierInfo]


class TierEndpoints:
    """The endpoint of `/tiers`."""

    def __init__(self, engine: Engine, tiers: TiersConfig) -> None:
        self._engine = engine
        self._tiers = tiers

    async def list(self) -> TierInfoList:
        """List the four tiers, each with the model that it resolves to."""
        return TierInfoList(data=[await self._read(tier) for tier in CapabilityTier])

    async def _read(self, tier: CapabilityTier) -> TierInfo:
        engine, config = self._engine, self._tiers.of(tier)
        try:
            served = (await engine.models.resolve(tier.model_name)).served
        except UnknownModel:
            served = None
        window = None if served is None else (await engine.budgets.of(served)).tokens
        return TierInfo(
            tier=tier, name=tier.model_name, is_listed=self._tiers.sets(tier), served=served, window=window,
            settings=config,
        )  # fmt: skip
