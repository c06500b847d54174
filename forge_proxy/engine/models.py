"""Which model a request means: the names a backend serves, kept for a while, and the name to send for one asked for.

With a catalog the names are those of the catalog, and a request that means none of them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.catalog import Catalog
from forge_proxy.core.chat import ModelCard
from forge_proxy.core.errors import BackendDown, BackendFault, BackendNotReady, BackendUnreachable, UnknownModel
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.ports import Backend, Clock

_KEPT_FOR = 30.0
"""Seconds for which a list is believed; a model server that was swapped in the meantime answers under its own names."""


class Models:
    """The models of one backend. `default` stands in for names that the backend does not know, where there is no
    catalog, which has a default itself.
    """

    def __init__(
        self, backend: Backend, clock: Clock, default: str | None = None, catalog: Catalog | None = None
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._default = default
        self._catalog = catalog
        self._cards: Sequence[ModelCard] = ()
        self._names: frozenset[str] = frozenset()
        self._until = float("-inf")

    async def list(self) -> Sequence[ModelCard]:
        """The models now. Raises `BackendFault`."""
        self._cards = [self._with_aliases(card) for card in await self._backend.models()]
        self._names = frozenset(name for card in self._cards for name in _names(card))
        self._until = self._clock.now() + _KEPT_FOR
        return self._cards

    def forget(self) -> None:
        """The backend is another one now, or serves with another window: it is asked before the next request."""
        self._until = float("-inf")

    def _with_aliases(self, card: ModelCard) -> ModelCard:
        if self._catalog is None:
            return card
        aliases: list[Json] = [*self._catalog.aliases_of(card.id)]
        return replace(card, details={**card.details, "aliases": aliases})

    async def get(self, name: str) -> ModelCard:
        """One model by its name, or alias. Raises `UnknownModel` or `BackendFault`."""
        if self._catalog is not None:
            name = self._catalog.known(name) or name
        for card in await self.list():
            if name in _names(card):
                return card
        raise UnknownModel(name, [card.id for card in self._cards])

    async def name_for(self, asked: str | None) -> str | None:
        """The name to send in place of the one asked for; None to send that one.

        A name that the backend does not know becomes the configured default, or the one model there is. With several
        and no default it is sent as it is: the backend knows best what to say about it. Raises `BackendUnreachable`,
        `BackendNotReady` or `BackendDown`, and with a catalog `UnknownModel`.
        """
        if self._catalog is not None:
            return self._stand_in(asked)
        if self._clock.now() > self._until:
            try:
                await self.list()
            except (BackendUnreachable, BackendNotReady, BackendDown):
                raise  # nor will the request itself be answered, and once is enough to wait for that
            except BackendFault:  # a server without a model list
                self._until = self._clock.now() + _KEPT_FOR
        return self._stand_in(asked)

    async def usual(self) -> str:
        """The model for requests that name none: the default, else the first. Raises `UnknownModel`, `BackendFault`."""
        if self._catalog is not None:
            return self._catalog.first
        if self._default is not None:
            return self._default
        for card in await self.list():
            return card.id
        raise UnknownModel("", [])

    def served_as(self, asked: str | None) -> str:
        """The model that a name means, as far as is known without asking: what is learned of it is kept under this.

        Raises `UnknownModel` where a catalog has no such name.
        """
        return self._stand_in(asked) or asked or ""

    def _stand_in(self, asked: str | None) -> str | None:
        if self._catalog is not None:
            found = self._catalog.find(asked)
            return None if found == asked else found
        if asked in self._names:
            return None
        if self._default is not None:
            return self._default
        return self._cards[0].id if len(self._cards) == 1 else None


def _names(card: ModelCard) -> tuple[str, str]:
    """What a model may be called: Ollama's usual tag may be left out."""
    return card.id, card.id.removesuffix(":latest")
