"""`/admin/v1/budget`: the context budget of requests, which can be switched while requests run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forge_proxy.api.admin.former_names import former_field
from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, OverflowAction
from forge_proxy.core.validation import to_invalid_request
from forge_proxy.engine.answer import Engine


class BudgetChange(BaseModel):
    """A new budget. Without `overflow`, that setting is unchanged."""

    model_config = ConfigDict(extra="forbid")

    mode: BudgetMode = Field(description="One of backend, manual, forge-full and forge-fast.")
    tokens: int | None = Field(default=None, description="The number of tokens; only with mode manual.")
    overflow: OverflowAction | None = Field(
        default=None, description="What to do with a prompt over the budget: reject, forward or compact."
    )


class BudgetInfo(BaseModel):
    """The budget of one request."""

    mode: BudgetMode
    tokens: int | None = Field(description="Tokens of prompt and response; null if the window is unknown.")
    reason: str = Field(description="How the number was determined.")
    window: int | None = Field(description="The window that the model server reports.")
    enforced: bool = Field(description="Whether forge-proxy rejects longer prompts; otherwise the model server does.")
    overflow: OverflowAction = Field(description="What happens to a prompt over the budget.")
    because = former_field("reason", str)


def to_budget_info(budget: Budget, policy: BudgetPolicy) -> BudgetInfo:
    """Return the API's representation of a budget."""
    return BudgetInfo(
        mode=budget.mode,
        tokens=budget.tokens,
        reason=budget.reason,
        window=budget.window,
        enforced=budget.enforced and policy.overflow != "forward",
        overflow=policy.overflow,
    )


class BudgetEndpoints:
    """The endpoints of `/budget`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self) -> BudgetInfo:
        """Show the current budget. With several models, each has its own: see /admin/v1/models."""
        return to_budget_info(await self._engine.budgets.of(), self._engine.policies.budget)

    async def switch(self, change: BudgetChange) -> BudgetInfo:
        """Switch to another budget. Running responses finish with the old one, which is kept if the switch fails."""
        overflow = change.overflow or self._engine.policies.budget.overflow
        try:
            policy = BudgetPolicy(mode=change.mode, tokens=change.tokens, overflow=overflow)
        except ValidationError as exc:
            raise to_invalid_request(exc.errors()) from exc
        await self._engine.apply(budget=policy)
        return await self.read()
