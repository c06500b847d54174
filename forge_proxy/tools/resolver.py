"""Resolver for aiohttp that returns only checked addresses of callback hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from aiohttp.abc import AbstractResolver, ResolveResult

from forge_proxy.tools.addresses import resolve
from forge_proxy.tools.origins import host_of, without_wildcards


class CheckedResolver(AbstractResolver):
    """`aiohttp.abc.AbstractResolver` for the entries of an allow-list."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._plain = frozenset(host_of(entry) for entry in without_wildcards(allowed))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See `AbstractResolver`. Raises `OSError`, including `ForbiddenAddress`."""
        addresses = await resolve(host, port, is_wildcard=host.lower() not in self._plain)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """See `AbstractResolver`."""
