"""Capability cards of the models that this or an earlier daemon has tested, and their effect on requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.dialect import Dialect
from forge_proxy.core.rescue.templates import LearnedTemplate
from forge_proxy.engine.compat import CompatibleBackend
from forge_proxy.engine.ports import Backend, CardStore
from forge_proxy.engine.self_test import self_test


class Capabilities:
    """Capability cards by model. Without a store they are lost when the daemon ends."""

    def __init__(
        self, backend: Backend, requests: CompatibleBackend, dialect: Dialect, store: CardStore | None = None
    ) -> None:
        self._backend = backend
        self._requests = requests
        self._dialect = dialect
        self._store = store
        self._cards: dict[str, CapabilityCard] = {}
        for card in store.load() if store else ():
            self._keep(card)

    @property
    def cards(self) -> Mapping[str, CapabilityCard]:
        """Cards by the name under which the server knows the model."""
        return self._cards

    async def test(self, model: str, template: LearnedTemplate | None = None) -> CapabilityCard:
        """Test a model and store its card, with what was learned from its template. Raises `BackendFault`."""
        card = replace(await self_test(self._backend, model, self._dialect), template=template)
        self._store_card(card)
        return card

    def template_of(self, model: str) -> LearnedTemplate | None:
        """Return what was learned from the chat template of a model, if a card has it."""
        card = self._cards.get(model)
        return card.template if card else None

    def keep_template(self, model: str, template: LearnedTemplate) -> None:
        """Store what was learned from the chat template of a model in its card, if it has one."""
        card = self._cards.get(model)
        if card is not None and card.template != template:
            self._store_card(replace(card, template=template))

    def _store_card(self, card: CapabilityCard) -> None:
        self._keep(card)
        if self._store is not None:
            self._store.keep(card)

    def _keep(self, card: CapabilityCard) -> None:
        self._cards[card.model] = card
        self._requests.set_tool_mode(card.model, card.tools)
        if card.constraint is not None:
            self._requests.set_constraint(card.model, card.constraint)
