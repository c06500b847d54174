"""The context budgets of the served models.

A budget is computed from the policy and the window that the backend reports, cached, switched at runtime, and enforced
here if the backend would not enforce it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import orjson
from cachetools import FIFOCache

from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Window, WindowSizing, fit_budget, limit_to_window
from forge_proxy.core.budget_errors import BudgetUnchanged
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.engine.events import BudgetResolved
from forge_proxy.engine.ports import Backend, Clock, HardwareSource, Observer, Resizer
from forge_proxy.wire.large_json import write_slices

_CACHED_SECONDS = 30.0
"""Seconds for which a window is cached, like the list of models."""
_CACHED_SECONDS_AFTER_FAULT = 1.0
_CACHE_SIZE = 256
_FIXED = WindowSizing()
_NONE: Mapping[str, BudgetPolicy] = {}


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """The maximum number of prompt tokens, and why.

    A longer prompt is rejected here if the limit is `enforced`, and compacted if it `compacts`.
    """

    tokens: int
    reason: str
    enforced: bool
    compacts: bool


class Budgets:
    """Holds the default `policy`; `of` computes a model's budget from it or from the model's `own` policy.

    Without a `Resizer` the backend's window is fixed.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        observe: Observer,
        policy: BudgetPolicy | None = None,
        sizing: WindowSizing = _FIXED,
        resizer: Resizer | None = None,
        hardware: HardwareSource | None = None,
        own: Mapping[str, BudgetPolicy] = _NONE,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._observe = observe
        self._sizing = sizing
        self._resizer = resizer
        self._hardware = hardware
        self._own = own
        self._given: dict[str | None, int | None] = {}
        self._windows: FIFOCache[str | None, tuple[float, Window]] = FIFOCache(_CACHE_SIZE)
        self._reported: FIFOCache[str | None, Budget] = FIFOCache(_CACHE_SIZE)
        self._switching = asyncio.Lock()
        self.policy = policy or BudgetPolicy()

    async def of(self, model: str | None = None, window: int | None = None) -> Budget:
        """Return the budget of a model. `window` is its window in tokens, if known already. Raises nothing.

        If a new window requires a restart of the server, all names share one budget; with a catalog each model has
        its own, and None means the loaded model.
        """
        model = self._key(model)
        budget = await self._compute(self.policy_of(model), await self._window(model, window))
        if budget.given is not None and budget.given == self._requested_size(model):
            budget = limit_to_window(budget)
        if self._reported.get(model) != budget:
            self._reported[model] = budget
            self._observe(BudgetResolved(model, budget))
        return budget

    def policy_of(self, model: str | None) -> BudgetPolicy:
        """Return the policy of a model."""
        return self.policy if model is None else self._own.get(model, self.policy)

    async def advertise(self, cards: Sequence[ModelCard]) -> list[ModelCard]:
        """Return the cards with each model's budget as its window, the number that clients can rely on."""
        return [replace(card, window=(await self.of(card.id, card.window)).tokens) for card in cards]

    async def settle(self) -> None:
        """Set the backend's window by the policy, once the backend is reachable. Raises `BackendFault`."""
        async with self._switching:
            self._expire_windows(*self._windows)
            await self._fit(self.policy)
            for model in self._served():
                await self.of(model)

    async def switch(self, policy: BudgetPolicy) -> None:
        """Replace the policy and set the backend's window accordingly.

        Raises `BudgetUnchanged` if that fails; the old policy then stays in force.
        """
        async with self._switching:
            self._expire_windows(*self._windows)
            try:
                await self._fit(policy)
            except BackendFault as fault:
                with suppress(BackendFault):  # some of several models may have the new window already
                    await self._fit(self.policy)
                raise BudgetUnchanged(str(fault)) from fault
            self.policy = policy

    async def load(self, model: str, start: Callable[[int | None], Awaitable[object]]) -> None:
        """Start a model of a catalog with the window of its budget; None means the model's own window.

        A share of the window can be computed only after the model has run with all of it, so the model is then
        started twice. Raises what `start` raises.
        """
        tokens = (await self._compute(self.policy_of(model), await self._window(model))).given
        await start(tokens)
        self._record_size(model, tokens)
        better = (await self.of(model)).given
        if better == tokens:
            return
        try:
            await start(better)
        except BackendFault:
            if model not in self._served():
                raise
        else:
            self._record_size(model, better)

    async def limit_of(self, call: ModelCall) -> PromptLimit | None:
        """Return the limit for the prompt of a call; None if the prompt is certainly within it, or if the backend
        enforces it.

        A token is at least one byte, and the JSON around the texts is longer than what a chat template adds.
        """
        model = call.model.served
        policy = self.policy_of(model)
        compacts = policy.overflow == "compact"
        if policy.overflow == "forward" or not (compacts or self._may_enforce(policy)):
            return None
        budget = await self.of(model)
        if budget.tokens is None or not (compacts or budget.enforced) or await _is_within(call, budget.tokens):
            return None
        return PromptLimit(budget.tokens, budget.reason, budget.enforced, compacts)

    def _served(self) -> Sequence[str | None]:
        return self._resizer.served() if self._resizer else (None,)

    def _key(self, model: str | None) -> str | None:
        """Return the name under which a model's window is cached."""
        if self._resizer is None or self._sizing.by != "restart":
            return model
        served = self._served()
        if None in served:
            return None
        return served[0] if model is None and served else model

    def _may_enforce(self, policy: BudgetPolicy) -> bool:
        is_own_number = policy.mode in (BudgetMode.MANUAL, BudgetMode.FORGE_FAST)
        return self._sizing.truncates or (self._resizer is None and is_own_number)

    async def _fit(self, policy: BudgetPolicy) -> None:
        """Set the windows of the served models by a policy; repeat if other models are served meanwhile."""
        fitted: Sequence[str | None] | None = None
        while fitted != (served := self._served()):
            fitted = served
            for model in served:
                own = policy if model is None else self._own.get(model, policy)
                await self._resize(model, (await self._compute(own, await self._window(model))).given)

    async def _resize(self, model: str | None, tokens: int | None) -> None:
        if self._resizer is None or tokens == self._given.get(model):
            return
        await self._resizer.resize(tokens, model)
        self._record_size(model, tokens)

    def _record_size(self, model: str | None, tokens: int | None) -> None:
        """Record a model's new window, and expire the cached one."""
        self._given[model] = tokens
        self._expire_windows(*(name for name in self._windows if model is None or name == model))

    def _requested_size(self, model: str | None) -> int | None:
        return self._given.get(model, self._given.get(None))

    def _expire_windows(self, *models: str | None) -> None:
        """Expire the cached windows of these models; their values remain as the fallback."""
        for model in models:
            self._windows[model] = float("-inf"), self._windows[model][1]

    async def _compute(self, policy: BudgetPolicy, window: Window) -> Budget:
        sizing = self._sizing if self._resizer is not None else replace(self._sizing, by="fixed")
        hardware = await self._hardware.profile() if self._hardware and sizing.by == "request" else None
        return fit_budget(policy, window, sizing, hardware)

    async def _window(self, model: str | None, tokens: int | None = None) -> Window:
        until, window = self._windows.get(model, (float("-inf"), Window()))
        if tokens is None and self._clock.now() <= until:
            return window
        cached_for = _CACHED_SECONDS
        try:
            now = tokens if tokens is not None else await self._backend.context_window(model)
            window = Window(now, now if self._requested_size(model) is None and now is not None else window.maximum)
        except BackendFault:  # perhaps loading, or down: the cached value is used a little longer
            cached_for = _CACHED_SECONDS_AFTER_FAULT
        self._windows[model] = (self._clock.now() + cached_for, window)
        return window


async def _is_within(call: ModelCall, tokens: int) -> bool:
    """Return whether the prompt has at most that many bytes.

    A large prompt is serialized only as far as necessary, in slices that yield to the event loop.
    """
    parts = call.prompt_parts
    size = 0
    try:
        if not call.request.is_large:
            return sum(len(orjson.dumps(part)) for part in parts) <= tokens
        for piece in chain.from_iterable(map(write_slices, parts)):
            size += len(piece)
            if size > tokens:
                return False
            await asyncio.sleep(0)
    except TypeError:  # nested too deeply for orjson: the request will not be sent to the backend either
        pass
    return True
