"""The budgets of the models that are served: made of the wish and of what the backend tells, kept for a while, switched
while requests are answered, and enforced where the backend would not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import orjson

from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Sizing, Window, fit_budget
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.errors import BackendFault, BudgetUnchanged, ContextBudgetExceeded
from forge_proxy.core.estimate import estimate_tokens
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.events import BudgetChosen
from forge_proxy.engine.ports import Backend, Clock, HardwareSource, Observer, Resizer

_KEPT_FOR = 30.0
"""Seconds for which a window is believed, as long as the list of models."""
_KEPT_AFTER_A_FAULT = 1.0
_REMEMBERED = 256
_FIXED = Sizing()

Count = Callable[[ModelCall], Awaitable[int | None]]


class Budgets:
    """One writer of the wish; `of` makes a model's budget of it. Without a `Resizer` the backend's window is fixed."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        observe: Observer,
        wish: BudgetPolicy | None = None,
        sizing: Sizing = _FIXED,
        resizer: Resizer | None = None,
        hardware: HardwareSource | None = None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._observe = observe
        self._sizing = sizing
        self._resizer = resizer
        self._hardware = hardware
        self._given: int | None = None
        self._windows: OrderedDict[str | None, tuple[float, Window]] = OrderedDict()
        self._told: dict[str | None, Budget] = {}
        self._switching = asyncio.Lock()
        self.wish = wish or BudgetPolicy()

    async def of(self, model: str | None = None, told: int | None = None) -> Budget:
        """The budget of a model, whose window `told` is, where it is known already. Raises nothing.

        Of a server that is restarted for it the budget is that of all its names.
        """
        model = None if self._restarts else model
        budget = await self._made(self.wish, await self._window(model, told))
        if self._told.get(model) != budget:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            self._told[model] = budget
            self._observe(BudgetChosen(model, budget))
        return budget

    async def advertised(self, cards: Sequence[ModelCard]) -> list[ModelCard]:
        """The cards, each with its budget for a window: that is what clients may count on."""
        return [replace(card, window=(await self.of(card.id, card.window)).tokens) for card in cards]

    async def settle(self) -> None:
        """Give the backend the window that the wish wants, once it is there. Raises `BackendFault`."""
        async with self._switching:
            await self._resize((await self.of()).given)

    async def switch(self, wish: BudgetPolicy) -> Budget:
        """Make another wish, and give the backend the window for it. Raises `BudgetUnchanged`: the old one holds."""
        async with self._switching:
            budget = await self._made(wish, await self._window(None))
            try:
                await self._resize(budget.given)
            except BackendFault as fault:
                raise BudgetUnchanged(str(fault)) from fault
            self.wish = wish
            return await self.of()

    async def admit(self, call: ModelCall, count: Count) -> None:
        """Let a call pass whose prompt is within the budget. Raises `ContextBudgetExceeded`.

        A token is a byte at least, and the JSON around the texts is more than what a template puts there; so most calls
        cost no more than measuring that, and nothing at all where the backend itself refuses what is too long.
        """
        if self.wish.overflow == "forward" or not self._may_enforce:
            return
        budget = await self.of(call.model or call.request.model)
        if not budget.enforced or budget.tokens is None or _bytes(call) <= budget.tokens:
            return
        try:
            exact = await count(call)
        except BackendFault:  # it will say so itself when it is asked for the answer
            exact = None
        tokens = estimate_tokens(*_prompt(call)) if exact is None else exact
        if tokens > budget.tokens:
            raise ContextBudgetExceeded(tokens, budget.tokens, budget.because, exact=exact is not None)

    @property
    def _restarts(self) -> bool:
        return self._resizer is not None and self._sizing.by == "restart"

    @property
    def _may_enforce(self) -> bool:
        ours = self.wish.mode in (BudgetMode.MANUAL, BudgetMode.FORGE_FAST)
        return self._sizing.truncates or (self._resizer is None and ours)

    async def _resize(self, tokens: int | None) -> None:
        if self._resizer is None or tokens == self._given:
            return
        await self._resizer.resize(tokens)
        self._given = tokens
        self._windows = OrderedDict((name, (float("-inf"), window)) for name, (_, window) in self._windows.items())

    async def _made(self, wish: BudgetPolicy, window: Window) -> Budget:
        sizing = self._sizing if self._resizer is not None else replace(self._sizing, by="fixed")
        hardware = await self._hardware.profile() if self._hardware and sizing.by == "request" else None
        return fit_budget(wish, window, sizing, hardware)

    async def _window(self, model: str | None, told: int | None = None) -> Window:
        until, window = self._windows.get(model, (float("-inf"), Window()))
        if told is None and self._clock.now() <= until:
            return window
        kept_for = _KEPT_FOR
        try:
            now = told if told is not None else await self._backend.context_window(model)
            window = Window(now, now if self._given is None and now is not None else window.most)
        except BackendFault:  # loading, perhaps, or gone: what was known is believed a little longer
            kept_for = _KEPT_AFTER_A_FAULT
        self._windows[model] = (self._clock.now() + kept_for, window)
        if len(self._windows) > _REMEMBERED:
            self._windows.popitem(last=False)
        return window


def _prompt(call: ModelCall) -> tuple[Json, ...]:
    added: list[Json] = [message.content for message in call.added]
    added += [tool.arguments for message in call.added for tool in message.tool_calls]
    return call.request.body.get("messages"), call.request.body.get("tools"), added


def _bytes(call: ModelCall) -> int:
    try:
        return sum(len(orjson.dumps(part)) for part in _prompt(call))
    except TypeError:  # nested deeper than it writes: the backend is not going to be asked either
        return 0
