"""The names of the models that the settings list, and which of them a request means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge_proxy.core.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Catalog:
    """`names` in the order of the settings, at least one. `aliases` lead to names. `default` is a name."""

    names: tuple[str, ...]
    aliases: Mapping[str, str]
    default: str | None = None

    @property
    def first(self) -> str:
        """The model of requests that name none, and the one to begin with."""
        return self.default or self.names[0]

    def known(self, asked: str) -> str | None:
        """The model of this name or alias; None where there is none."""
        return asked if asked in self.names else self.aliases.get(asked)

    def aliases_of(self, name: str) -> list[str]:
        """The other names of a model, in the order of the settings."""
        return [alias for alias, leads_to in self.aliases.items() if leads_to == name]

    def find(self, asked: str | None) -> str:
        """The model that a request means: by name, by alias, else the default, else the only one.

        Raises `UnknownModel` for a name that leads to none.
        """
        if asked is None:
            return self.first
        found = self.known(asked) or self.default or (self.names[0] if len(self.names) == 1 else None)
        if found is None:
            raise UnknownModel(asked, self.names)
        return found
