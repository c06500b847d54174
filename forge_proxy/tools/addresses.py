"""Resolves listed host names and checks the addresses. Connections are made to exactly the checked addresses.

Each connection resolves its name once. This prevents DNS rebinding, and names that resolve to a service of this machine
or to a cloud metadata service.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from aiohttp.abc import AbstractResolver, ResolveResult

from forge_proxy.tools.origins import host_of, without_wildcards

Address = IPv4Address | IPv6Address
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = IPv6Address("fd00:ec2::254")


class ForbiddenAddress(OSError):
    """A name resolves to a forbidden address. The message names it."""


async def resolve(host: str, port: int, *, is_wildcard: bool) -> Sequence[str]:
    """Return the addresses of a host, best first; an address resolves to itself.

    `is_wildcard` is true if only a wildcard entry lists the host. Raises `OSError`, and `ForbiddenAddress` if any
    address is forbidden.
    """
    host = host.strip("[]")
    if is_address(host):
        return [host]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
    for address in addresses:
        if (why := find_forbidden_reason(address, is_wildcard=is_wildcard)) is not None:
            raise ForbiddenAddress(f"{host} resolves to {address}, {why}, which a host name may not resolve to")
    return addresses


class CheckedResolver(AbstractResolver):
    """`aiohttp.abc.AbstractResolver` for the entries of an allow-list."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._full_names = frozenset(host_of(entry) for entry in without_wildcards(allowed))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """See `AbstractResolver`. Raises `OSError`, including `ForbiddenAddress`."""
        addresses = await resolve(host, port, is_wildcard=host.lower() not in self._full_names)
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


def is_address(host: str) -> bool:
    """Return whether a host is an IP address in canonical form."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def find_forbidden_reason(text: str, *, is_wildcard: bool) -> str | None:
    """Return why a name must not resolve to an address; None if it may.

    Loopback and private addresses are allowed for a name that the operator listed in full (`localhost`, a container's
    name). For a wildcard name, which the domain's owner chooses, loopback is forbidden.
    """
    address = _unwrap(ip_address(text))
    if address.is_unspecified or str(address).startswith("0."):
        return "not an address"
    if address.is_link_local or address == _METADATA:
        return "a link-local address"
    if address.is_multicast or (address.is_reserved and address not in _NAT64 and not address.is_loopback):
        return "not the address of a host"
    if address.is_loopback and is_wildcard:
        return "this machine"
    return None


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
