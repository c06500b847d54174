"""Whose requests are answered as far as web pages go: Host against DNS rebinding, Origin against foreign pages.

The rules and their reasons are in docs/decisions/0008.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from forge_proxy.api.access_denied import AccessDenied, AmbiguousHeaders, ForeignHost, ForeignOrigin
from forge_proxy.api.config import ServerConfig
from forge_proxy.api.errors import refuse

# No public name server answers for these, so no page from outside can make its own name one of them.
_PRIVATE_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\s:/@\[\]]+))(?::\d*)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_MAX_LENGTH = 300
"""Characters of a Host or Origin that is looked at, and remembered: a DNS name has 253 at most."""

_SINGLE = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-type", b"content-encoding"})
"""Headers of which only one may be sent. Of two, a server in front may have looked at the other."""


class HostNames:
    """The names under which this daemon is asked, and the origins that may ask. Pure; remembers its verdicts."""

    def __init__(self, config: ServerConfig) -> None:
        self._names = _PRIVATE_NAMES | {config.host.lower(), *config.allowed_hosts}
        self._origins = frozenset(config.allowed_origins)
        self.include = lru_cache(256)(self._include)
        self.let_ask = lru_cache(256)(self._let_ask)

    def _include(self, host: str) -> bool:
        """Whether a Host header names this daemon."""
        name = _name_in(host.lower())
        if name is None:
            return False
        # A page under an address cannot rebind it, so any address will do.
        return _is_loopback(name) or name in self._names or _address(name) is not None

    def _let_ask(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may send requests to that host, which is one of ours."""
        origin, host = origin.lower(), host.lower()
        scheme, _, authority = origin.partition("://")
        if origin in self._origins:
            return True
        if scheme not in _DEFAULT_PORTS:
            return False
        name = _name_in(authority)
        return authority in (host, host.removesuffix(_DEFAULT_PORTS[scheme])) or (
            name is not None and _is_loopback(name)
        )


class CheckOrigin:
    """Pure ASGI middleware: a 403 for an unknown Host, and for a page of a foreign origin; a 400 where
    headers do not say clearly which these are.
    """

    def __init__(self, app: ASGIApp, names: HostNames) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or turn it away before its body is read."""
        single: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _SINGLE:
                if name in single:
                    return await refuse(
                        AmbiguousHeaders(f"the header {name.decode()} was sent twice"), scope, receive, send
                    )
                single[name] = value
        refusal = self._refusal(scope, single)
        if refusal is not None:
            return await refuse(refusal, scope, receive, send)
        return await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, single: Mapping[bytes, bytes]) -> AccessDenied | None:
        sent = single.get(b"host")
        if sent is None:  # then it is no browser that asks
            if scope["http_version"] == "1.1":
                return AmbiguousHeaders("a request of HTTP/1.1 needs a Host header")
            host = ""
        else:
            host = sent.decode("latin-1")
            if len(host) > _MAX_LENGTH or not self._names.include(host):
                return ForeignHost(host[:_MAX_LENGTH])
        if b"origin" in single:
            origin = single[b"origin"].decode("latin-1")
            if len(origin) > _MAX_LENGTH or not self._names.let_ask(origin, host):
                return ForeignOrigin(origin[:_MAX_LENGTH])
        return None


def is_loopback(address: str) -> bool:
    """Whether an address is reached from this machine alone. Names are not looked up."""
    ip = ip_address(address)
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def is_private(host: str) -> bool:
    """Whether what listens at a host is reached from this machine alone. Names that are not localhost may be more."""
    return _is_loopback(host.lower())


def _is_loopback(name: str) -> bool:
    """As a browser has it: names below localhost never leave the machine."""
    if _address(name) is not None:
        return is_loopback(name)
    return name == "localhost" or name.endswith(".localhost")


def _address(name: str) -> str | None:
    try:
        ip_address(name)
    except ValueError:
        return None
    return name


def _name_in(authority: str) -> str | None:
    """The host of `host[:port]`, without brackets and the root's dot; None where there is none."""
    found = _AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]).removesuffix(".") if found else None
