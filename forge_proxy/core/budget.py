"""The context budget of a request in tokens, computed from the configured policy and the model server's window. Pure.

If the server's window can be changed, the budget states the new one (`given`); otherwise forge-proxy enforces it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forge_proxy.core.deprecation import renamed_attribute
from forge_proxy.core.hardware import HardwareProfile

MIN_TOKENS = 256
"""The smallest budget in tokens: a system prompt alone needs as many."""
MAX_TOKENS = 16_777_216
"""The largest budget in tokens, more than any model supports: a server restarted with more would only fail."""
_TIERS = ((48, 262_144), (24, 32_768), (0, 4_096))
"""Minimum VRAM in GB and the window in tokens that Ollama itself selects for it, the largest first."""


class BudgetMode(StrEnum):
    """How the budget is determined."""

    BACKEND = "backend"
    MANUAL = "manual"
    FORGE_FULL = "forge-full"
    FORGE_FAST = "forge-fast"


OverflowAction: TypeAlias = Literal["reject", "forward", "compact"]


class BudgetPolicy(BaseModel):
    """The `budget` section of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: BudgetMode = Field(
        default=BudgetMode.BACKEND,
        description="`backend`: the server's own window; `manual`: `tokens`; `forge-full`: the most that the hardware"
        " allows; `forge-fast`: half of that.",
    )
    tokens: int | None = Field(
        default=None,
        ge=MIN_TOKENS,
        le=MAX_TOKENS,
        description="Tokens for a prompt, with mode manual and only with that.",
    )
    overflow: OverflowAction = Field(
        default="reject",
        description="A prompt over the budget: reject it (400 context_length_exceeded), forward it anyway, or"
        " compact its history first, as set in compaction.",
    )

    @model_validator(mode="after")
    def _go_together(self) -> BudgetPolicy:
        if self.mode is BudgetMode.MANUAL and self.tokens is None:
            raise ValueError("mode manual needs tokens: the size of the budget")
        if self.mode is not BudgetMode.MANUAL and self.tokens is not None:
            raise ValueError(f"tokens is only for mode manual; mode {self.mode.value} determines the number itself")
        return self


@dataclass(frozen=True, slots=True)
class Window:
    """The known window of a model in tokens per request: the current one, and the server's default (`maximum`)."""

    current: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class WindowSizing:
    """How the window of a model server is set.

    `fixed`: at the start of an external server. `restart`: by restarting the managed server. `request`: by each request
    (Ollama's `num_ctx`). A server that `truncates` shortens a long prompt that others would reject.
    """

    by: Literal["fixed", "restart", "request"] = "fixed"
    truncates: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for one request, prompt and response together; None if unknown. `reason` is the reason, for the user."""

    mode: BudgetMode
    tokens: int | None
    reason: str
    window: int | None = None
    """The server's own window, None if it reports none."""
    given: int | None = None
    """The window to set on the server for this budget; None leaves the choice to the server."""
    enforced: bool = False
    """Whether forge-proxy must reject longer prompts because the server would not."""

    because = renamed_attribute("because", "reason")


def fit_budget(
    policy: BudgetPolicy, window: Window, sizing: WindowSizing, hardware: HardwareProfile | None = None
) -> Budget:
    """Return the budget for a policy. `hardware` matters only if each request sets its window."""
    if sizing.by == "fixed":
        tokens, reason = _within(policy, window.current)
        smaller = tokens is not None and (window.current is None or tokens < window.current)
        return Budget(policy.mode, tokens, reason, window.current, enforced=smaller or sizing.truncates)
    tokens, given, reason = _compute_size(policy, window, sizing, hardware)
    return Budget(policy.mode, tokens, reason, window.current, given, enforced=sizing.truncates)


def limit_to_window(budget: Budget) -> Budget:
    """Return the budget after the window was set: the server may limit it to the model's training context length."""
    if budget.window is None or budget.tokens is None or budget.window >= budget.tokens:
        return budget
    reason = f"{budget.reason}, but the model server uses {budget.window}"
    return replace(budget, tokens=budget.window, reason=reason)


def _within(policy: BudgetPolicy, window: int | None) -> tuple[int | None, str]:
    """Return the budget within a window that cannot be changed, and the reason."""
    match policy.mode:
        case BudgetMode.BACKEND | BudgetMode.FORGE_FULL:
            if window is None:
                return None, "the model server does not report its window, so nothing is enforced"
            return window, f"the model server's own window is {window} tokens"
        case BudgetMode.MANUAL:
            assert policy.tokens is not None  # noqa: S101  # the policy was checked
            if window is not None and policy.tokens > window:
                return window, f"{policy.tokens} tokens are configured, but the model server's window is {window}"
            return policy.tokens, f"{policy.tokens} tokens are configured"
        case BudgetMode.FORGE_FAST:
            if window is None:
                return None, "half of a window that the model server does not report, so nothing is enforced"
            reason = f"half of the model server's {window} tokens; forge-proxy cannot change its window"
            return _half(window), f"{reason}, so longer prompts are rejected"
        case _:
            assert_never(policy.mode)


def _compute_size(
    policy: BudgetPolicy, window: Window, sizing: WindowSizing, hardware: HardwareProfile | None
) -> tuple[int | None, int | None, str]:
    """Return the budget, the window to set on the server, and the reason."""
    full, reason = _full(window, sizing, hardware)
    match policy.mode:
        case BudgetMode.BACKEND:
            tokens = window.maximum or window.current
            return tokens, None, "the model server chooses its window" + (f": {tokens} tokens" if tokens else "")
        case BudgetMode.MANUAL:
            return policy.tokens, policy.tokens, f"{policy.tokens} tokens are configured"
        case BudgetMode.FORGE_FULL:
            return full, full if sizing.by == "request" else None, reason
        case BudgetMode.FORGE_FAST:
            half = _half(full) if full is not None else None
            return half, half, f"half of forge-full: {reason}"
        case _:
            assert_never(policy.mode)


def _full(window: Window, sizing: WindowSizing, hardware: HardwareProfile | None) -> tuple[int | None, str]:
    known = window.maximum or window.current
    if sizing.by == "restart":
        if known is None:
            return None, "the model server has not reported its window yet"
        return known, f"{known} tokens is the default of the model server"
    vram = hardware.vram_mb if hardware else None
    # A card sold as 24 GB reports slightly less than 24 GiB.
    size = round(vram / 1024) if vram is not None else 0
    tier = next(tokens for least, tokens in _TIERS if size >= least)
    reason = f"{tier} tokens for {f'{size} GB of VRAM' if vram is not None else 'no known VRAM'}"
    if known is not None and known > tier:
        return known, f"{reason}, but the model was loaded with {known}"
    return tier, reason


def _half(tokens: int) -> int:
    return max(MIN_TOKENS, tokens // 2)
