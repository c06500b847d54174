"""Resolves the model of a request: caches the names that a backend serves and maps a requested name to one of them.

With a catalog the names are those of the catalog, and a request for any other name is refused. The names of tiers
are resolved to the models of their tiers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forge_proxy.core.backend_errors import BackendDown, BackendFault, BackendNotReady, BackendUnreachable
from forge_proxy.core.catalog import Catalog
from forge_proxy.core.chat import ModelCard, ResolvedModel
from forge_proxy.core.errors import UnknownModel
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.ports import Backend, Clock
from forge_proxy.engine.tier_models import TierModel

_CACHED_SECONDS = 30.0
"""Seconds for which the list is cached: the model server may have been replaced by one with other names."""


class Models:
    """The models of one backend.

    `default` replaces names that the backend does not know, unless there is a catalog, which has its own default.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        default: str | None = None,
        catalog: Catalog | None = None,
        tiers: Sequence[TierModel] = (),
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._default = default
        self._catalog = catalog
        self._tiers = {tier.name: tier for tier in tiers}
        self._cards: Sequence[ModelCard] = ()
        self._by_name: dict[str, ModelCard] = {}
        self._cached_until = float("-inf")

    async def list(self) -> Sequence[ModelCard]:
        """Request the list of models from the backend. Raises `BackendFault`."""
        self._cards = [self._with_aliases(card) for card in await self._backend.models()]
        self._by_name = {name: card for card in reversed(self._cards) for name in _names(card)}  # the first one counts
        self._cached_until = self._clock.now() + _CACHED_SECONDS
        return self._cards

    def forget(self) -> None:
        """Expire the cached list: the backend or its window has changed."""
        self._cached_until = float("-inf")

    def _with_aliases(self, card: ModelCard) -> ModelCard:
        if self._catalog is None:
            return card
        aliases: list[Json] = [*self._catalog.aliases_of(card.id)]
        return replace(card, details={**card.details, "aliases": aliases})

    def tier_of(self, requested: str | None) -> TierModel | None:
        """Return the tier whose name is requested. A tier that is not set gives way to a model with its name."""
        tier = self._tiers.get(requested or "")
        if tier is None or tier.is_listed:
            return tier
        return None if self._has_model(tier.name) else tier

    def with_tiers(self, cards: Sequence[ModelCard]) -> Sequence[ModelCard]:
        """Return the models that clients see: the given ones, and the tiers that are set, each as its model."""
        listed = [tier.name for tier in self._tiers.values() if tier.is_listed]
        if not listed:
            return cards
        by_name = {name: card for card in reversed(cards) for name in _names(card)}
        return [*(card for card in cards if card.id not in listed), *(self._as_tier(name, by_name) for name in listed)]

    def _as_tier(self, name: str, by_name: Mapping[str, ModelCard]) -> ModelCard:
        try:
            served = self.resolve_cached(name).served or ""
        except UnknownModel:  # the request itself will raise it
            served = ""
        card = by_name.get(served, ModelCard(served))
        details = {key: value for key, value in card.details.items() if key != "aliases"}
        return replace(card, id=name, details={**details, "root": served})

    async def get(self, name: str) -> ModelCard:
        """Return a model by its name or alias. Raises `UnknownModel` or `BackendFault`."""
        if self._catalog is not None:
            name = self._catalog.resolve(name) or name
        for card in await self.list():
            if name in _names(card):
                return card
        raise UnknownModel(name, [card.id for card in self._cards])

    async def resolve(self, requested: str | None) -> ResolvedModel:
        """Resolve a requested name.

        A name that the backend does not know is replaced by the configured default, or by the only model. With
        several models and no default it is sent unchanged, and the backend reports the error. Raises
        `BackendUnreachable`, `BackendNotReady` or `BackendDown`, and with a catalog `UnknownModel`.
        """
        if self._catalog is None and self._clock.now() > self._cached_until:
            try:
                await self.list()
            except (BackendUnreachable, BackendNotReady, BackendDown):
                raise  # the request itself would fail too, and waiting once is enough
            except BackendFault:  # a server without a model list
                self._cached_until = self._clock.now() + _CACHED_SECONDS
        return self.resolve_cached(requested)

    def is_known(self, name: str) -> bool:
        """Return whether the catalog, the settings or the latest list has this name. Never requests the list."""
        return name in self._tiers or self._has_model(name)

    def _has_model(self, name: str) -> bool:
        if self._catalog is not None:
            return self._catalog.resolve(name) is not None
        return name in self._by_name or name == self._default

    def cached_card(self, name: str) -> ModelCard | None:
        """Return a model of the latest list by its name; None if the list does not have it."""
        return self._by_name.get(name)

    @property
    def first_known(self) -> str | None:
        """The model for requests without one, as far as it is known without a request to the backend."""
        if self._catalog is not None:
            return self._catalog.first
        return self._default or (self._cards[0].id if self._cards else None)

    async def default_name(self) -> str:
        """Return the model for requests without one: the default, else the first.

        Raises `UnknownModel` or `BackendFault`.
        """
        if self._catalog is not None:
            return self._catalog.first
        if self._default is not None:
            return self._default
        for card in await self.list():
            return card.id
        raise UnknownModel("", [])

    def resolve_cached(self, requested: str | None) -> ResolvedModel:
        """Resolve a requested name by the latest list, without a request to the backend.

        Raises `UnknownModel` if the catalog has no such name.
        """
        return ResolvedModel(requested, self._replacement(requested))

    def _replacement(self, requested: str | None) -> str | None:
        tier = self.tier_of(requested)
        if tier is not None:
            return self.first_known if tier.model is None else self._replacement_of(tier.model) or tier.model
        return self._replacement_of(requested)

    def _replacement_of(self, requested: str | None) -> str | None:
        if self._catalog is not None:
            found = self._catalog.find(requested)
            return None if found == requested else found
        if requested in self._by_name:
            return None
        if self._default is not None:
            return self._default
        return self._cards[0].id if len(self._cards) == 1 else None


def _names(card: ModelCard) -> tuple[str, str]:
    """Return the accepted names of a model: Ollama's default tag is optional."""
    return card.id, card.id.removesuffix(":latest")
