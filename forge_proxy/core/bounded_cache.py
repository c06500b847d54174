"""A cache bounded by the size of its entries rather than their number, because clients determine their size."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from cachetools import LRUCache, cached

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def cache_results(limit: int, size_of: Callable[[V], int]) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Return a decorator that caches the most recently used results, up to a total size of `limit`.

    The size is in bytes or characters, as `size_of` counts. A result that is larger than the limit is not cached.
    Threads may share the cache: a program may run a proxy in one thread and an engine in another.
    """
    cache: LRUCache[Any, V] = LRUCache(limit, getsizeof=size_of)
    return cached(cache, lock=Lock())
