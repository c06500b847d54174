"""Which hosts are called: those that were listed, and no others. Pure.

A URL is compared as text, so it has to be written in the one way that all URL parsers read alike; so do addresses, of
which systems take many forms (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`). Which addresses a listed name may resolve
to is in `addresses`; an address that is written out is the operator's affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

_AUTHORITY = r"([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
_URL = re.compile(rf"(https?)://{_AUTHORITY}(?:[/?][!-~]*)?", re.ASCII | re.IGNORECASE)
_ENTRY = re.compile(rf"(https?)://(\*\.)?{_AUTHORITY}/?", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*", re.ASCII)
"""The last label of a host that systems read as an address, whatever stands before it."""
_PORTS = {"http": 80, "https": 443}


def check_entry(entry: str) -> str:
    """An entry of an allow-list as it is compared. Raises `ValueError`."""
    found = _ENTRY.fullmatch(entry)
    if found is None or not _is_port(found[4]) or not _is_plain_host(found[3]):
        raise ValueError(
            "expected an origin such as https://tools.example.com, http://127.0.0.1:9000 or https://*.example.com"
        )  # without what was written: it may hold a password
    scheme, wildcard, host, port = found.groups()
    if wildcard and "." not in host:
        raise ValueError(f"{entry!r} is too wide: * stands for one label below a domain, as in https://*.example.com")
    return _origin(scheme, f"{wildcard or ''}{host}", port)


def check_url(url: str) -> str:
    """The URL. Raises `ValueError` for one that is not plainly written."""
    found = _URL.fullmatch(url)
    if found is None or "#" in url or "\\" in url or not _is_port(found[3]) or not _is_plain_host(found[2]):
        raise ValueError(
            "expected a URL such as https://tools.example.com/weather, in ASCII, without a user and without #"
        )
    return url


def origin_of(url: str) -> str:
    """Scheme, host and port of a checked URL. Raises `ValueError`."""
    found = _URL.fullmatch(check_url(url))
    assert found is not None  # noqa: S101  # it was checked
    return _origin(found[1], found[2], found[3])


def is_listed(url: str, allowed: Iterable[str]) -> bool:
    """Whether the origin of a URL is one of the checked entries. `*` stands for one label."""
    origin = origin_of(url)
    scheme, _, host = origin.partition("://")
    wide = f"{scheme}://*.{host.partition('.')[2]}"
    return any(entry in (origin, wide) for entry in allowed)


def plain(allowed: Iterable[str]) -> tuple[str, ...]:
    """The entries without a `*`: what they list is written out by the operator."""
    return tuple(entry for entry in allowed if "*" not in entry)


def host_of(entry: str) -> str:
    """The host of a checked entry, or of an origin."""
    return entry.partition("://")[2].rpartition(":")[0]


def _is_plain_host(host: str) -> bool:
    """Whether it is a name, or an address in its usual form that a host can have."""
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
