"""The forms of calls that were learned from the models' chat templates: once per model, off the event loop.

The daemon learns that of the default model at its start. The first request of another model waits for it, for a short
time; without a form, the parser uses its general grammar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from forge_proxy.core.rescue import LearnedForm
from forge_proxy.core.rescue.templates import FAILURES, LearnedTemplate
from forge_proxy.engine.events import TemplateLearned
from forge_proxy.engine.ports import Clock, Observer, TemplateLearner

_WAIT_SECONDS = 1.0
"""How long the first request of a model waits. Reading and learning a template takes about a tenth of a second."""
_CHECK_SECONDS = 600.0
"""Seconds after which the template is read again: the server may have been restarted with another model."""
_MAX_MODELS = 256
"""Maximum models in memory: a client may name any model."""


class LearnedForms:
    """Forms by model. `keep` stores what was learned; `known` returns what an earlier daemon stored."""

    def __init__(
        self,
        learner: TemplateLearner | None,
        clock: Clock,
        observe: Observer,
        known: Callable[[str], LearnedTemplate | None],
        keep: Callable[[str, LearnedTemplate], None],
    ) -> None:
        self._learner = learner
        self._clock = clock
        self._observe = observe
        self._known = known
        self._keep = keep
        self._learned: dict[str, LearnedTemplate] = {}
        self._checked: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[LearnedTemplate]] = {}

    @property
    def learned(self) -> Mapping[str, LearnedTemplate]:
        """The learned markup of each model."""
        return self._learned

    async def of(self, model: str | None) -> LearnedForm | None:
        """Return the form of a model; None if there is none, or if it is not learned in time. Raises nothing."""
        name = model or ""
        learned = self._learned.get(name)
        if learned is None and self._learner is not None:
            task = self._start(name)
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    learned = await asyncio.shield(task)
        elif self._clock.now() - self._checked.get(name, 0.0) > _CHECK_SECONDS:
            self._start(name)
        return learned.form if learned else None

    async def learn(self, model: str | None) -> LearnedTemplate:
        """Read the template of a model now."""
        return await self._start(model or "")

    async def close(self) -> None:
        """Cancel what is being learned."""
        for task in tuple(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _start(self, name: str) -> asyncio.Task[LearnedTemplate]:
        if name not in self._tasks:
            self._checked[name] = self._clock.now()
            self._tasks[name] = asyncio.create_task(self._learn(name))
            self._tasks[name].add_done_callback(lambda _: self._tasks.pop(name, None))
        return self._tasks[name]

    async def _learn(self, name: str) -> LearnedTemplate:
        before = self._learned.get(name)
        if self._learner is None:
            return LearnedTemplate(None, "unavailable")
        learned = await self._learner.learn(name or None, before or self._known(name))
        if len(self._learned) < _MAX_MODELS or name in self._learned:
            self._learned[name] = learned
        if learned != before:
            form, why = learned.form, FAILURES.get(learned.failure, learned.failure)
            detail = f"{why}: {learned.detail}" if learned.detail else why
            self._observe(TemplateLearned(name or None, form.shape if form else None, detail))
            self._keep(name, learned)
        return learned
