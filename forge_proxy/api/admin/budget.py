"""`/admin/v1/budget`: how much context requests have, and why; switched while agents are working."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forge_proxy.api.fields import wrong_field
from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Overflow
from forge_proxy.engine.budgets import Budgets


class BudgetChange(BaseModel):
    """Another budget. What is left out of `overflow` stays."""

    model_config = ConfigDict(extra="forbid")

    mode: BudgetMode = Field(description="backend, manual, forge-full or forge-fast.")
    tokens: int | None = Field(default=None, description="With mode manual, and only then: how many.")
    overflow: Overflow | None = Field(default=None, description="reject, forward or compact what is over it.")


class BudgetNow(BaseModel):
    """The budget of one request."""

    mode: BudgetMode
    tokens: int | None = Field(description="Tokens of prompt and answer; null where nothing is known or enforced.")
    because: str = Field(description="Why it is that.")
    window: int | None = Field(description="The window that the model server tells itself.")
    enforced: bool = Field(description="Whether forge-proxy refuses what is longer; else the model server does.")
    overflow: Overflow = Field(description="What is done with a prompt that is over it.")


def shown(budget: Budget, wish: BudgetPolicy) -> BudgetNow:
    """A budget as the API tells it."""
    return BudgetNow(
        mode=budget.mode,
        tokens=budget.tokens,
        because=budget.because,
        window=budget.window,
        enforced=budget.enforced and wish.overflow != "forward",
        overflow=wish.overflow,
    )


class BudgetSwitch:
    """The endpoints."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets

    async def read(self) -> BudgetNow:
        """The budget that holds. With several models each has its own: see /admin/v1/models."""
        return shown(await self._budgets.of(), self._budgets.wish)

    async def switch(self, change: BudgetChange) -> BudgetNow:
        """Switch to another one. Running answers end with the old one. If it fails, the old one stays."""
        overflow = change.overflow or self._budgets.wish.overflow
        try:
            wish = BudgetPolicy(mode=change.mode, tokens=change.tokens, overflow=overflow)
        except ValidationError as exc:
            raise wrong_field(exc.errors()) from exc
        return shown(await self._budgets.switch(wish), wish)
