"""The catalog of configured models, and the resolution of a requested name to one of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge_proxy.core.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Catalog:
    """The configured models: at least one of `names`, in the order of the settings; `aliases` map to names.

    `default` is one of the names.
    """

    names: tuple[str, ...]
    aliases: Mapping[str, str]
    default: str | None = None

    @property
    def first(self) -> str:
        """The model of requests without a model name, which is also loaded first."""
        return self.default or self.names[0]

    def resolve(self, requested: str) -> str | None:
        """Return the model with this name or alias, or None. Ollama's default tag is optional."""
        for name in (requested, requested.removesuffix(":latest")):
            if found := name if name in self.names else self.aliases.get(name):
                return found
        return None

    def aliases_of(self, name: str) -> list[str]:
        """Return the aliases of a model, in the order of the settings."""
        return [alias for alias, leads_to in self.aliases.items() if leads_to == name]

    def find(self, requested: str | None) -> str:
        """Return the model for a requested name: by name, by alias, otherwise the default, otherwise the only model.

        Raises `UnknownModel` if none of these applies.
        """
        if requested is None:
            return self.first
        found = self.resolve(requested) or self.default or (self.names[0] if len(self.names) == 1 else None)
        if found is None:
            raise UnknownModel(requested, self.names)
        return found
