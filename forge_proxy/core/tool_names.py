"""Resolution of a tool name as a model writes it to one of the offered tools."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable

from forge_proxy.core.bounded_cache import cache_results

_TWICE = re.compile(r"([\w-]+)[.:/]\1\Z")
_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions:", "tools:")
_CACHE_SIZE = 4_000_000
_OVERHEAD = 200
"""Characters that an index entry costs in addition to its name."""


class OfferedNames:
    """The names of the offered tools, sorted, with an index of their spellings."""

    def __init__(self, names: Iterable[str]) -> None:
        self.sorted = sorted({*names})
        self._names = frozenset(self.sorted)
        self._folded: dict[str, str | None] = {}
        """The name by its case-folded spelling; None if several names share it."""
        for name in self.sorted:
            folded = name.casefold()
            self._folded[folded] = None if folded in self._folded else name

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def any_begins_with(self, begun: str) -> bool:
        """Whether an offered name begins with or equals the given text."""
        at = bisect_left(self.sorted, begun)
        return at < len(self.sorted) and self.sorted[at].startswith(begun)

    def resolve(self, written_name: str) -> str | None:
        """Return the only offered name equal to it, ignoring case and prefixes such as `functions.`; otherwise None."""
        if written_name in self._names:
            return written_name
        whole = written_name.strip()
        prefix = next((prefix for prefix in _PREFIXES if whole.startswith(prefix)), "")
        bare = whole.removeprefix(prefix)
        for name in (whole, bare):
            if name in self._names:
                return name
        twice = _TWICE.match(whole)  # a name space of the same name, as some templates write it: `read.read`
        if twice and twice[1] in self._names:
            return twice[1]
        spellings = {whole.casefold(), bare.casefold()} & self._folded.keys()
        alike = {self._folded[spelling] for spelling in spellings}
        return alike.pop() if len(alike) == 1 else None


def _size_of(offered: OfferedNames) -> int:
    return sum(map(len, offered.sorted)) + _OVERHEAD * len(offered.sorted)


@cache_results(_CACHE_SIZE, _size_of)
def offered_names(names: tuple[str, ...]) -> OfferedNames:
    """Return the index of these names. Cached, because an agent offers the same tools with every request."""
    return OfferedNames(names)


def resolve_name(written_name: str, names: Collection[str]) -> str | None:
    """See `OfferedNames.resolve`."""
    return written_name if written_name in names else offered_names(tuple(names)).resolve(written_name)
