"""Errors of the context budget."""

from __future__ import annotations

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.errors import ForgeError


class ContextBudgetExceeded(ForgeError):
    """A prompt of `tokens` tokens exceeds the context budget of `budget` tokens.

    `reason` is the reason for the budget, `exact` is False if `tokens` is an estimate, and `shortened` is the smallest
    number of tokens that compaction reached, None if compaction is off.
    """

    def __init__(self, tokens: int, budget: int, reason: str, *, exact: bool, shortened: int | None = None) -> None:
        counted = f"{tokens}" if exact else f"about {tokens}"
        tried = f" After compaction they still have {shortened} tokens." if shortened is not None else ""
        super().__init__(
            f"This model's maximum context length is {budget} tokens. However, your messages resulted in {counted} "
            f"tokens.{tried} Please reduce the length of the messages. (Budget: {reason}.)"
        )
        self.tokens = tokens
        self.budget = budget

    @property
    def summary(self) -> str:
        return f"a prompt of {self.tokens} tokens is over the budget of {self.budget}"


class BudgetUnchanged(ForgeError):
    """The context budget could not be changed; the previous one stays in force. `why` is the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the budget was not changed: {why}")

    @property
    def summary(self) -> str:
        return str(self)


class BudgetResolutionError(BackendFault):
    """The size of the context window is unknown: neither the model server nor the configuration states it.

    `cause` is the error of the query to the server, None if the server answered without stating a window.
    """

    def __init__(self, url: str, cause: BackendFault | None = None) -> None:
        why = f"cannot be queried ({cause.summary})" if cause else "does not report its context window"
        remedy = "set budget_mode=BudgetMode.MANUAL and manual_tokens"
        super().__init__(f"could not determine the context budget: the model server at {url} {why}; {remedy}", url=url)
        self.cause = cause
