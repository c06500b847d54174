"""A reload applies all reloadable settings or, if any of them cannot be applied, none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.api.auth import KeyRing
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.backend_errors import BackendDown
from forge_proxy.core.budget import WindowSizing
from forge_proxy.core.budget_errors import BudgetUnchanged
from forge_proxy.core.sampling import SamplingPolicy
from forge_proxy.daemon.reload import LiveSettings
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.budgets import Budgets
from forge_proxy.engine.config import EngineConfig
from forge_proxy.settings import Settings
from tests.fakes.scripted import ScriptedHttp, StillClock


class Window:
    """A `Resizer` that waits in `resize` until `proceed` is set, and then raises `fault` if there is one."""

    def __init__(self, fault: BackendDown | None = None) -> None:
        self.fault = fault
        self.resizing = asyncio.Event()
        self.proceed = asyncio.Event()

    def served(self) -> Sequence[str | None]:
        return (None,)

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        self.resizing.set()
        await self.proceed.wait()
        if self.fault is not None:
            raise self.fault


def build(now: Settings, loaded: Settings, window: Window) -> tuple[Engine, KeyRing, LiveSettings]:
    """Build an engine and keys with the settings `now`, and what reloads them as `loaded`."""
    backend = OpenAICompatible("http://scripted", ScriptedHttp((), window=8192))
    observe = [].append
    budgets = Budgets(backend, StillClock(), observe, now.budget, WindowSizing("restart"), window)
    engine = Engine(EngineConfig(backend, StillClock(), observe, budgets=budgets, guardrails=now.guardrails))
    keys = KeyRing(now.server)
    return engine, keys, LiveSettings(now, lambda: loaded, engine, keys)


def is_accepted(keys: KeyRing, key: bytes) -> bool:
    return keys.refusal("/v1/models", [key]) is None


def settings(key_file: Path, **sections: Any) -> Settings:
    return Settings.model_validate({"server": {"api_keys_file": key_file}, **sections})


async def test_a_failed_budget_switch_changes_no_setting(tmp_path: Path) -> None:
    (old := tmp_path / "old").write_text("sk-old")
    (new := tmp_path / "new").write_text("sk-new")
    window = Window(BackendDown("llama-server", "it does not start"))
    window.proceed.set()
    now = settings(old)
    loaded = settings(
        new,
        budget={"mode": "manual", "tokens": 4096},
        guardrails={"max_retries": 7},
        compaction={"threshold": 0.5},
        sampling={"defaults": "on"},
    )
    engine, keys, live = build(now, loaded, window)
    before = engine.policies

    with pytest.raises(BudgetUnchanged):
        await live.reload()

    assert engine.policies == before
    assert live.now == now
    assert (is_accepted(keys, b"sk-old"), is_accepted(keys, b"sk-new")) == (True, False)


async def test_a_key_file_that_vanishes_during_a_reload_does_not_split_it(tmp_path: Path) -> None:
    (file := tmp_path / "keys").write_text("sk-new")
    window = Window()
    loaded = settings(file, budget={"mode": "manual", "tokens": 4096}, guardrails={"max_retries": 7})
    engine, keys, live = build(Settings.model_validate({}), loaded, window)

    reload = asyncio.create_task(live.reload())
    async with asyncio.timeout(20):
        await window.resizing.wait()
        file.unlink()
        window.proceed.set()
        await reload

    assert engine.policies.guardrails.max_retries == 7
    assert (is_accepted(keys, b"sk-new"), is_accepted(keys, b"sk-other")) == (True, False)


async def test_policies_change_only_when_the_window_has_changed() -> None:
    window = Window()
    loaded = Settings.model_validate({"budget": {"mode": "manual", "tokens": 4096}, "guardrails": {"max_retries": 7}})
    engine, _, live = build(Settings.model_validate({}), loaded, window)

    reload = asyncio.create_task(live.reload())
    async with asyncio.timeout(20):
        await window.resizing.wait()
        during = engine.policies
        window.proceed.set()
        await reload

    assert (during.guardrails.max_retries, during.budget.tokens) == (3, None)
    assert (engine.policies.guardrails.max_retries, engine.policies.budget.tokens) == (7, 4096)


async def test_a_policy_applied_during_a_budget_switch_stays() -> None:
    window = Window()
    loaded = Settings.model_validate({"budget": {"mode": "manual", "tokens": 4096}})
    engine, _, _ = build(Settings.model_validate({}), loaded, window)

    switch = asyncio.create_task(engine.apply(budget=loaded.budget))
    async with asyncio.timeout(20):
        await window.resizing.wait()
        await engine.apply(sampling=SamplingPolicy(defaults="on"))
        window.proceed.set()
        await switch

    assert engine.policies.sampling == SamplingPolicy(defaults="on")
    assert engine.policies.budget == loaded.budget


@pytest.mark.parametrize("change", ["budget", "reload"])
async def test_a_client_that_disconnects_during_a_budget_switch_does_not_split_it(change: str) -> None:
    window = Window()
    loaded = Settings.model_validate({"budget": {"mode": "manual", "tokens": 4096}, "guardrails": {"max_retries": 7}})
    engine, _, live = build(Settings.model_validate({}), loaded, window)

    work = live.reload() if change == "reload" else engine.apply(budget=loaded.budget, guardrails=loaded.guardrails)
    request = asyncio.create_task(work)
    async with asyncio.timeout(20):
        await window.resizing.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        during = engine.policies
        window.proceed.set()
        await engine.apply(budget=loaded.budget)  # waits for the switch in progress

    assert (during.budget.tokens, during.guardrails.max_retries) == (None, 3)
    assert (engine.policies.budget.tokens, engine.policies.guardrails.max_retries) == (4096, 7)


async def test_a_budget_switch_that_fails_after_the_client_has_disconnected_changes_no_policy() -> None:
    window = Window(BackendDown("llama-server", "it does not start"))
    loaded = Settings.model_validate({"budget": {"mode": "manual", "tokens": 4096}, "guardrails": {"max_retries": 7}})
    engine, _, _ = build(Settings.model_validate({}), loaded, window)
    before = engine.policies

    request = asyncio.create_task(engine.apply(budget=loaded.budget, guardrails=loaded.guardrails))
    async with asyncio.timeout(20):
        await window.resizing.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        window.proceed.set()
        with pytest.raises(BudgetUnchanged):
            await engine.apply(budget=loaded.budget)

    assert engine.policies == before
