"""Which addresses are called: what a listed name resolves to is checked, and is what the connection is made to.

A name is looked up once for each connection. So a name that resolves to something else a moment later, or that belongs
to somebody who wants to reach a service of this machine or of its cloud, gets nowhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = IPv6Address("fd00:ec2::254")


class ForbiddenAddress(OSError):
    """A name resolves to an address that is not called. The message says which."""


async def resolve(host: str, port: int, *, is_wide: bool) -> Sequence[str]:
    """The addresses of a host, best first; an address is its own. `is_wide` is whether only an entry with a `*` lists
    the host. Raises `OSError`, `ForbiddenAddress` if any of them is not called.
    """
    host = host.strip("[]")
    if is_address(host):
        return [host]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
    for address in addresses:
        if (why := why_forbidden(address, is_wide=is_wide)) is not None:
            raise ForbiddenAddress(f"{host} resolves to {address}, {why}, which is not called by name")
    return addresses


def is_address(host: str) -> bool:
    """Whether a host is an address, in its usual form."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def why_forbidden(text: str, *, is_wide: bool) -> str | None:
    """What is wrong with an address that a name resolves to; None if it may be called.

    Loopback and private addresses are honest for a name that the operator wrote out (`localhost`, a container's name).
    For a name below a `*`, which the owner of the domain chose, loopback is not.
    """
    address = _inner(ip_address(text))
    if address.is_unspecified or str(address).startswith("0."):
        return "no address"
    if address.is_link_local or address == _METADATA:
        return "a link-local address"
    if address.is_multicast or (address.is_reserved and address not in _NAT64 and not address.is_loopback):
        return "no address of a host"
    if address.is_loopback and is_wide:
        return "this machine"
    return None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address contains, if any."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
