"""A cache bounded by the size of its entries rather than their number, because clients determine their size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the most recently used entries with a total weight of at most `limit`.

    The weight of an entry is in bytes or characters, as the calling code counts. An entry that weighs more than a
    quarter of the limit is not cached, so that it does not evict all others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """The total weight of the entries."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, weight: int, make: Callable[[], V]) -> V:
        """Return the entry for `key`; create it with `make` if there is none."""
        known = self._entries.pop(key, None)
        if known is not None:
            self._entries[key] = known
            return known[0]
        made = make()
        if weight * 4 <= self._limit:
            self._entries[key] = made, weight
            self.weight += weight
            while self.weight > self._limit:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.weight -= dropped
        return made
