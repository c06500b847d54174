"""The budgets of the models that are served: made of the wish and of what the backend tells, kept for a while, switched
while requests are answered, and enforced where the backend would not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

import orjson

from forge_proxy.core.budget import Budget, BudgetMode, BudgetPolicy, Window, WindowSizing, as_taken, fit_budget
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.errors import BackendFault, BudgetUnchanged
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.events import BudgetResolved
from forge_proxy.engine.ports import Backend, Clock, HardwareSource, Observer, Resizer
from forge_proxy.wire.large_json import write_slices

_KEPT_FOR = 30.0
"""Seconds for which a window is believed, as long as the list of models."""
_KEPT_AFTER_A_FAULT = 1.0
_REMEMBERED = 256
_FIXED = WindowSizing()
_NONE: Mapping[str, BudgetPolicy] = {}


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """How many tokens a prompt may have, and why: refused beyond by us where it is `enforced`, shortened where it
    `compacts`.
    """

    tokens: int
    because: str
    enforced: bool
    compacts: bool


class Budgets:
    """One writer of the wish; `of` makes a model's budget of it, or of the model's `own` wish where it has one.

    Without a `Resizer` the backend's window is fixed.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        observe: Observer,
        wish: BudgetPolicy | None = None,
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
        self._windows: OrderedDict[str | None, tuple[float, Window]] = OrderedDict()
        self._told: dict[str | None, Budget] = {}
        self._switching = asyncio.Lock()
        self.wish = wish or BudgetPolicy()

    async def of(self, model: str | None = None, told: int | None = None) -> Budget:
        """The budget of a model, whose window `told` is, where it is known already. Raises nothing.

        Of a server that is restarted for it the budget is that of all its names, or that of a model of a catalog; then
        None is the loaded one.
        """
        model = self._key(model)
        budget = await self._made(self.wish_of(model), await self._window(model, told))
        if budget.given is not None and budget.given == self._given_to(model):
            budget = as_taken(budget)
        if self._told.get(model) != budget:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            self._told[model] = budget
            self._observe(BudgetResolved(model, budget))
        return budget

    def wish_of(self, model: str | None) -> BudgetPolicy:
        """What its budget is made of."""
        return self.wish if model is None else self._own.get(model, self.wish)

    async def advertised(self, cards: Sequence[ModelCard]) -> list[ModelCard]:
        """The cards, each with its budget for a window: that is what clients may count on."""
        return [replace(card, window=(await self.of(card.id, card.window)).tokens) for card in cards]

    async def settle(self) -> None:
        """Give the backend the window that the wish wants, once it is there. Raises `BackendFault`."""
        async with self._switching:
            self._look_again()
            await self._fit(self.wish)
            for model in self._served():
                await self.of(model)

    async def switch(self, wish: BudgetPolicy) -> Budget:
        """Make another wish, and give the backend the window for it. Raises `BudgetUnchanged`: the old one holds."""
        async with self._switching:
            self._look_again()
            try:
                await self._fit(wish)
            except BackendFault as fault:
                with suppress(BackendFault):  # of several models some may have it already
                    await self._fit(self.wish)
                raise BudgetUnchanged(str(fault)) from fault
            self.wish = wish
            return await self.of()

    async def load(self, model: str, start: Callable[[int | None], Awaitable[object]]) -> None:
        """Have a model of a catalog started with the window that its budget wants, None for its own.

        Half of a window is known once it has run with the whole; then it is started twice. Raises what `start` does.
        """
        tokens = (await self._made(self.wish_of(model), await self._window(model))).given
        await start(tokens)
        self._gave(model, tokens)
        better = (await self.of(model)).given
        if better == tokens:
            return
        try:
            await start(better)
        except BackendFault:
            if model not in self._served():
                raise
        else:
            self._gave(model, better)

    async def limit_of(self, call: ModelCall) -> PromptLimit | None:
        """What the prompt of a call is held to; None where it is within that for sure, or the backend sees to it.

        A token is a byte at least, and the JSON around the texts is more than what a template puts there.
        """
        model = call.model or call.request.model
        wish = self.wish_of(model)
        compacts = wish.overflow == "compact"
        if wish.overflow == "forward" or not (compacts or self._may_enforce(wish)):
            return None
        budget = await self.of(model)
        if budget.tokens is None or not (compacts or budget.enforced) or await _is_within(call, budget.tokens):
            return None
        return PromptLimit(budget.tokens, budget.because, budget.enforced, compacts)

    def _served(self) -> Sequence[str | None]:
        return self._resizer.served() if self._resizer else (None,)

    def _key(self, model: str | None) -> str | None:
        """The name under which a model's window is kept."""
        if self._resizer is None or self._sizing.by != "restart":
            return model
        served = self._served()
        if None in served:
            return None
        return served[0] if model is None and served else model

    def _may_enforce(self, wish: BudgetPolicy) -> bool:
        ours = wish.mode in (BudgetMode.MANUAL, BudgetMode.FORGE_FAST)
        return self._sizing.truncates or (self._resizer is None and ours)

    async def _fit(self, wish: BudgetPolicy) -> None:
        """Give the models that are served the windows for a wish; again, where others are served meanwhile."""
        fitted: Sequence[str | None] | None = None
        while fitted != (served := self._served()):
            fitted = served
            for model in served:
                own = wish if model is None else self._own.get(model, wish)
                await self._resize(model, (await self._made(own, await self._window(model))).given)

    async def _resize(self, model: str | None, tokens: int | None) -> None:
        if self._resizer is None or tokens == self._given.get(model):
            return
        await self._resizer.resize(tokens, model)
        self._gave(model, tokens)

    def _gave(self, model: str | None, tokens: int | None) -> None:
        """It has this window from now on, so it is asked for it anew."""
        self._given[model] = tokens
        gone = [name for name in self._windows if model is None or name == model]
        for name in gone:
            self._windows[name] = float("-inf"), self._windows[name][1]

    def _given_to(self, model: str | None) -> int | None:
        return self._given.get(model, self._given.get(None))

    def _look_again(self) -> None:
        """What is known of windows may be another one by now; it stays until that is known."""
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
            window = Window(now, now if self._given_to(model) is None and now is not None else window.most)
        except BackendFault:  # loading, perhaps, or gone: what was known is believed a little longer
            kept_for = _KEPT_AFTER_A_FAULT
        self._windows[model] = (self._clock.now() + kept_for, window)
        if len(self._windows) > _REMEMBERED:
            self._windows.popitem(last=False)
        return window


def prompt_of(call: ModelCall) -> tuple[Json, ...]:
    """All that a model is told in a call."""
    added: list[Json] = [message.content for message in call.added]
    added += [tool.arguments for message in call.added for tool in message.tool_calls]
    return call.request.body.get("messages"), call.request.body.get("tools"), added


async def _is_within(call: ModelCall, tokens: int) -> bool:
    """Whether the prompt has no more bytes than that. Of a large one no more is written than it takes to know, in
    slices, between which others have the event loop.
    """
    parts = prompt_of(call)
    size = 0
    try:
        if not call.request.is_large:
            return sum(len(orjson.dumps(part)) for part in parts) <= tokens
        for piece in chain.from_iterable(map(write_slices, parts)):
            size += len(piece)
            if size > tokens:
                return False
            await asyncio.sleep(0)
    except TypeError:  # nested deeper than it writes: the backend is not going to be asked either
        pass
    return True
