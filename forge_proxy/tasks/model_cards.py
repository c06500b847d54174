"""The capability cards of the models of tasks. A model that has none is tested when a task first needs it."""

from __future__ import annotations

import asyncio

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.errors import ForgeError
from forge_proxy.engine.answer import Engine
from forge_proxy.tasks.server_wait import TEMPORARY_ERRORS


class ModelUntested(Exception):
    """The model has no card yet, or its server is unavailable."""


class ModelCards:
    """Returns cards, and has models tested: one at a time, because several sub-tasks may need one at the same time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._testing = asyncio.Lock()
        self._untestable = set[str]()
        """Models whose last test has failed."""

    async def find(self, model: str | None) -> CapabilityCard | None:
        """Return the card of a model without testing it; None if its last test has failed. Raises `ModelUntested`."""
        try:
            name = await self._name_of(model)
        except TEMPORARY_ERRORS as error:
            raise ModelUntested from error
        except ForgeError:
            return None
        card = self._engine.capabilities.cards.get(name)
        if card is None:
            if name not in self._untestable:
                raise ModelUntested
            self._untestable.discard(name)  # the next attempt tests it again: its server may have been overloaded
        return card

    async def find_or_test(self, model: str | None) -> CapabilityCard | None:
        """Return the card of a model, which is tested first if it has none. None if it cannot be tested.

        A test takes minutes on a slow machine. Raises `TEMPORARY_ERRORS`.
        """
        name, cards = "", self._engine.capabilities.cards
        try:
            name = await self._name_of(model)
            async with self._testing:
                return cards.get(name) or await self._engine.test(name)
        except TEMPORARY_ERRORS:
            raise
        except ForgeError:
            self._untestable.add(name)
            return None

    async def _name_of(self, model: str | None) -> str:
        models = self._engine.models
        return models.resolve_cached(model).served or await models.default_name()
