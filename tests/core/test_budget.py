"""What a wish comes to: by the server's window, by the machine, by who can change the window."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Window, WindowSizing, fit_budget
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
def test_a_window_that_cannot_be_changed_bounds_the_budget_and_what_is_less_we_enforce(
    wish: BudgetPolicy, window: int | None, tokens: int | None, enforced: bool
) -> None:
    budget = fit_budget(wish, Window(window), FIXED)

    assert (budget.tokens, budget.enforced, budget.given, budget.window) == (tokens, enforced, None, window)
    assert budget.because


def test_half_of_a_window_that_we_cannot_change_says_that_it_is_only_enforced() -> None:
    assert "cannot be changed from here" in fit_budget(FAST, Window(8192), FIXED).because


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
def test_a_server_of_ours_is_given_the_window_and_refuses_by_itself(
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
def test_an_ollama_has_the_tier_of_all_cards_together(vram: tuple[float, ...], tokens: int) -> None:
    full = fit_budget(FULL, Window(), REQUEST, machine(*vram))
    fast = fit_budget(FAST, Window(), REQUEST, machine(*vram))

    assert (full.tokens, full.given) == (tokens, tokens)
    assert (fast.tokens, fast.given) == (tokens // 2, tokens // 2)


def test_an_ollama_never_has_less_than_its_model_was_loaded_with() -> None:
    budget = fit_budget(FULL, Window(40_000, 40_000), REQUEST, machine(8))

    assert budget.tokens == 40_000
    assert "loaded with 40000" in budget.because


def test_a_machine_of_which_nothing_is_known_has_the_lowest_tier_and_says_so() -> None:
    budget = fit_budget(FULL, Window(), REQUEST)

    assert (budget.tokens, budget.because) == (4096, "4096 tokens go with no known VRAM")


def test_a_server_that_cuts_prompts_is_never_left_to_refuse_them() -> None:
    assert fit_budget(BACKEND, Window(4096), WindowSizing(truncates=True)).enforced
    assert fit_budget(BACKEND, Window(4096, 4096), REQUEST).enforced


def test_budgets_are_values() -> None:
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
def test_a_wish_that_makes_no_sense_is_refused_with_the_reason(said: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        BudgetPolicy.model_validate(said)
