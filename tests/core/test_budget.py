"""The budget by policy, by the server's window, by the hardware, and by how the window is set."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Window, WindowSizing, fit_budget, limit_to_window
from forge_proxy.core.hardware import Gpu, HardwareProfile

FIXED, RESTART, REQUEST = WindowSizing(), WindowSizing("restart"), WindowSizing("request", truncates=True)
BACKEND, FULL, FAST = (BudgetPolicy(mode=BudgetMode(mode)) for mode in ("backend", "forge-full", "forge-fast"))


def manual(tokens: int) -> BudgetPolicy:
    return BudgetPolicy(mode=BudgetMode.MANUAL, tokens=tokens)


def machine(*vram_gb: float) -> HardwareProfile:
    gpus = tuple(Gpu("card", round(size * 1024)) for size in vram_gb)
    return HardwareProfile("nvml", gpus, None, 1, "made up")


@pytest.mark.parametrize(
    ("wish", "window", "tokens", "enforced"),
    [
        (BACKEND, None, None, False),
        (BACKEND, 8192, 8192, False),
        (FULL, 8192, 8192, False),
        (FULL, None, None, False),
        (FAST, 8192, 4096, True),
        (FAST, 300, 256, True),
        (FAST, None, None, False),
        (manual(4000), 8192, 4000, True),
        (manual(8192), 8192, 8192, False),
        (manual(9000), 8192, 8192, False),
        (manual(9000), None, 9000, True),
    ],
)
def test_a_fixed_window_limits_the_budget_and_a_smaller_budget_is_enforced(
    wish: BudgetPolicy, window: int | None, tokens: int | None, enforced: bool
) -> None:
    budget = fit_budget(wish, Window(window), FIXED)

    assert (budget.tokens, budget.enforced, budget.given, budget.window) == (tokens, enforced, None, window)
    assert budget.reason


def test_half_of_a_fixed_window_is_reported_as_enforced_only() -> None:
    assert "forge-proxy cannot change its window" in fit_budget(FAST, Window(8192), FIXED).reason


@pytest.mark.parametrize(
    ("wish", "window", "tokens", "given"),
    [
        (BACKEND, Window(8192, 8192), 8192, None),
        (FULL, Window(8192, 8192), 8192, None),
        (FAST, Window(8192, 8192), 4096, 4096),
        (FAST, Window(4096, 8192), 4096, 4096),
        (FULL, Window(4096, 8192), 8192, None),
        (FAST, Window(), None, None),
        (FULL, Window(), None, None),
        (manual(100_000), Window(8192, 8192), 100_000, 100_000),
    ],
)
def test_a_managed_server_gets_the_window_and_rejects_longer_prompts_itself(
    wish: BudgetPolicy, window: Window, tokens: int | None, given: int | None
) -> None:
    budget = fit_budget(wish, window, RESTART)

    assert (budget.tokens, budget.given, budget.enforced) == (tokens, given, False)


@pytest.mark.parametrize(
    ("vram", "tokens"),
    [
        ((), 4096),
        ((8,), 4096),
        ((23,), 4096),
        ((23.99,), 32_768),
        ((24,), 32_768),
        ((12, 12), 32_768),
        ((47,), 32_768),
        ((48,), 262_144),
        ((139,), 262_144),
    ],
)
def test_ollama_gets_the_tier_of_the_total_vram(vram: tuple[float, ...], tokens: int) -> None:
    full = fit_budget(FULL, Window(), REQUEST, machine(*vram))
    fast = fit_budget(FAST, Window(), REQUEST, machine(*vram))

    assert (full.tokens, full.given) == (tokens, tokens)
    assert (fast.tokens, fast.given) == (tokens // 2, tokens // 2)


def test_ollama_never_gets_a_smaller_window_than_its_loaded_model() -> None:
    budget = fit_budget(FULL, Window(40_000, 40_000), REQUEST, machine(8))

    assert budget.tokens == 40_000
    assert "loaded with 40000" in budget.reason


def test_a_window_as_large_as_the_budget_is_no_limit() -> None:
    assert fit_budget(manual(8192), Window(8192), FIXED).reason == "8192 tokens are configured"
    assert fit_budget(FULL, Window(32_768), REQUEST, machine(24)).reason == "32768 tokens for 24 GB of VRAM"


@pytest.mark.parametrize(
    ("tokens", "window", "limited"), [(None, 4096, None), (4096, None, 4096), (4096, 4096, 4096), (8192, 4096, 4096)]
)
def test_a_server_that_sets_a_smaller_window_limits_the_budget(
    tokens: int | None, window: int | None, limited: int | None
) -> None:
    budget = Budget(BudgetMode.MANUAL, tokens, "configured", window)

    now = limit_to_window(budget)

    assert now.tokens == limited
    assert now == budget or now.reason == "configured, but the model server uses 4096"


def test_unknown_hardware_gets_the_lowest_tier_and_the_reason_states_it() -> None:
    budget = fit_budget(FULL, Window(), REQUEST)

    assert (budget.tokens, budget.reason) == (4096, "4096 tokens for no known VRAM")


def test_the_budget_is_enforced_for_a_server_that_truncates_prompts() -> None:
    assert fit_budget(BACKEND, Window(4096), WindowSizing(truncates=True)).enforced
    assert fit_budget(BACKEND, Window(4096, 4096), REQUEST).enforced


def test_budgets_are_compared_by_value() -> None:
    assert fit_budget(BACKEND, Window(8), FIXED) == Budget(
        BudgetMode.BACKEND, 8, "the model server's own window is 8 tokens", 8
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"mode": "manual"}, "needs tokens"),
        ({"mode": "forge-fast", "tokens": 4096}, "tokens is only for mode manual"),
        ({"overflow": "compress"}, "compact"),
        ({"mode": "manual", "tokens": 255}, "256"),
        ({"mode": "manual", "tokens": 2**24 + 1}, "16777216"),
        ({"mode": "half"}, "forge-fast"),
    ],
)
def test_a_contradictory_policy_is_rejected_with_the_reason(said: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        BudgetPolicy.model_validate(said)
