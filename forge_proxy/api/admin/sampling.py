"""`/admin/v1/sampling`: the sampling values that model publishers recommend, and whether they are used."""

from __future__ import annotations

from pydantic import BaseModel, Field

from forge_proxy.api.admin.former_names import former_field
from forge_proxy.core.sampling import Recommendation, SamplingPolicy
from forge_proxy.engine.answer import Engine


class SamplingInfo(BaseModel):
    """The policy and all recommendations."""

    policy: SamplingPolicy
    recommendations: list[Recommendation] = Field(description="The first one that matches the name of a model applies.")
    known = former_field("recommendations", list[Recommendation])


class SamplingEndpoints:
    """The endpoints of `/sampling`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self) -> SamplingInfo:
        """Show whether missing sampling values are filled in, and with which ones."""
        return SamplingInfo(policy=self._engine.policies.sampling, recommendations=list(self._engine.sampling.known))

    async def choose(self, policy: SamplingPolicy) -> SamplingInfo:
        """Switch it on or off, from the next request on."""
        await self._engine.apply(sampling=policy)
        return await self.read()
