"""A cache bounded by what its entries hold and not by their number: what a client sends decides on their size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the entries that were used last, as long as they weigh no more than `limit` together.

    The weight of an entry is in bytes or characters, as the caller counts. An entry that weighs more than a quarter of
    the limit is not kept, so that it does not drive out all others.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0
        """What the entries weigh together."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, weight: int, make: Callable[[], V]) -> V:
        """The entry of this key, made if there is none."""
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
