"""The allow-list of origins: only listed hosts are called. Pure.

URLs are compared as text, so they must use the one form that all URL parsers read alike. The same holds for addresses,
which systems accept in many forms (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`). `addresses` checks what a listed name
resolves to; a literal address in the list is the operator's decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

_AUTHORITY = r"([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
_URL = re.compile(rf"(https?)://{_AUTHORITY}(?:[/?][!-~]*)?", re.ASCII | re.IGNORECASE)
_ENTRY = re.compile(rf"(https?)://(\*\.)?{_AUTHORITY}/?", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)
"""A last label that makes systems parse the whole host as an address."""
_PORTS = {"http": 80, "https": 443}


def check_entry(entry: str) -> str:
    """Return an entry of an allow-list in canonical form. Raises `ValueError`."""
    found = _ENTRY.fullmatch(entry)
    if found is None or not _is_port(found[4]) or not _is_plain_host(found[3]):
        raise ValueError(
            "expected an origin such as https://tools.example.com, http://127.0.0.1:9000 or https://*.example.com"
        )  # does not quote the entry: it may contain a password
    scheme, wildcard, host, port = found.groups()
    if wildcard and "." not in host:
        raise ValueError(f"{entry!r} is too wide: * matches one label below a domain, as in https://*.example.com")
    return _origin(scheme, f"{wildcard or ''}{host}", port)


def check_url(url: str) -> str:
    """Return the URL unchanged. Raises `ValueError` if it is not in canonical form."""
    found = _URL.fullmatch(url)
    if found is None or "#" in url or "\\" in url or not _is_port(found[3]) or not _is_plain_host(found[2]):
        raise ValueError(
            "expected a URL such as https://tools.example.com/weather, in ASCII, without a user and without #"
        )
    return url


def origin_of(url: str) -> str:
    """Return scheme, host and port of a checked URL. Raises `ValueError`."""
    found = _URL.fullmatch(check_url(url))
    assert found is not None  # noqa: S101  # it was checked
    return _origin(found[1], found[2], found[3])


def is_listed(url: str, allowed: Iterable[str]) -> bool:
    """Return whether one of the checked entries matches the origin of a URL. `*` matches one label."""
    origin = origin_of(url)
    scheme, _, host = origin.partition("://")
    wide = f"{scheme}://*.{host.partition('.')[2]}"
    return any(entry in (origin, wide) for entry in allowed)


def without_wildcards(allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the entries without a wildcard."""
    return tuple(entry for entry in allowed if "*" not in entry)


def host_of(entry: str) -> str:
    """Return the host of a checked entry or of an origin."""
    return entry.partition("://")[2].rpartition(":")[0]


def _is_plain_host(host: str) -> bool:
    """Return whether a host is a name, or a unicast address in canonical form."""
    if not host.startswith("[") and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return not (address.is_unspecified or address.is_multicast or is_mapped)


def _is_port(port: str | None) -> bool:
    return port is None or 0 < int(port) < 65536


def _origin(scheme: str, host: str, port: str | None) -> str:
    scheme = scheme.lower()
    return f"{scheme}://{host.lower()}:{int(port) if port else _PORTS[scheme]}"
