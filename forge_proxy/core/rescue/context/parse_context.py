"""What one look at a text goes by: the names that are offered, and how much work it may put into what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from forge_proxy.core.rescue.context.skip_unparsed import past_brackets
from forge_proxy.core.tool_names import offered_names

Mender = Callable[[str], "str | None"]
"""Gives the JSON text of the object that a broken text stands for, or None."""

LIGHT = 16_000
"""Characters of broken text that are read where somebody waits: about 5 ms of work."""
THOROUGH = 4_000_000
SEARCH = 4_000_000
"""Characters that are searched for closing tags: four arguments of 1 MB each, or a few hundred of the usual size."""


class ParseContext:
    """One look at one text. What is left of its effort changes while it is read with; everything else stays."""

    def __init__(self, names: Iterable[str], mend: Mender | None = None) -> None:
        self.names = tuple(sorted(names))
        self._offered = offered_names(self.names)
        self.mend = mend
        """The last resort, for a look that nobody waits for."""
        self.effort = THOROUGH if mend else LIGHT
        """Characters of broken text that may still be looked at."""
        self._search = SEARCH
        self._said: dict[str, str | None] = {}
        self._asked = (0, 0, 0)
        self._past = 0
        self.unread = False
        """Whether something broken was left unread that another look, with more effort, might read."""

    def may_search(self, length: int) -> bool:
        """Whether so much text may still be searched for closing tags."""
        return length <= self._search

    def searched(self, length: int) -> None:
        """Take note that so many characters were searched."""
        self._search -= length

    def past(self, text: str, at: int) -> int:
        """The place after the brackets that open at `at`, no further away than the effort that is left; what was found
        out is kept, since every reader asks.
        """
        key = (id(text), at, self.effort)
        if key != self._asked:
            self._asked, self._past = key, past_brackets(text, at, self.effort + 1)
        return self._past

    def name(self, said: str) -> str | None:
        """The offered tool that is meant by `said`."""
        if said in self._offered:
            return said
        if said not in self._said:
            self._said[said] = self._offered.resolve(said)
        return self._said[said]

    def may_begin_name(self, begun: str) -> bool:
        """Whether the name of an offered tool begins so."""
        return self._offered.any_begins_with(begun)

    def may_try(self, length: int) -> bool:
        """Whether so much broken text may still be read; if not, something is left unread."""
        if length <= self.effort:
            return True
        self.unread = True
        return False

    def spend(self, length: int) -> None:
        """Take note that so many characters of broken text were looked at."""
        self.effort -= length
