"""Protects the daemon from web pages: checks Host against DNS rebinding and Origin against foreign pages.

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
from forge_proxy.api.error_responses import refuse

# No public name server resolves these names, so no foreign page can be served under one of them.
_PRIVATE_NAMES = frozenset({"localhost", "host.docker.internal", "host.containers.internal"})
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\s:/@\[\]]+))(?::\d*)?")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_MAX_LENGTH = 300
"""Maximum characters of a Host or Origin that is checked and cached: a DNS name has at most 253."""

_SINGLE = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-type", b"content-encoding"})
"""Headers that may be sent only once. Of two, a server in front may have checked the other one."""


class HostNames:
    """The host names of this daemon and the allowed origins. Caches its results."""

    def __init__(self, config: ServerConfig) -> None:
        self._names = _PRIVATE_NAMES | {config.host.lower(), *config.allowed_hosts}
        self._origins = frozenset(config.allowed_origins)
        self.include = lru_cache(256)(self._include)
        self.allow = lru_cache(256)(self._allow)

    def _include(self, host: str) -> bool:
        """Return whether a Host header names this daemon."""
        name = _name_in(host.lower())
        if name is None:
            return False
        # An address cannot be rebound, so any address is accepted.
        return _is_loopback(name) or name in self._names or _address(name) is not None

    def _allow(self, origin: str, host: str) -> bool:
        """Return whether a page of that origin may send requests to that host, which names this daemon."""
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


class OriginMiddleware:
    """Pure ASGI middleware that responds with 403 to an unknown Host or a foreign origin, and with 400 to ambiguous
    headers.
    """

    def __init__(self, app: ASGIApp, names: HostNames) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it before its body is read."""
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
        if sent is None:  # not a browser
            if scope["http_version"] == "1.1":
                return AmbiguousHeaders("an HTTP/1.1 request needs a Host header")
            host = ""
        else:
            host = sent.decode("latin-1")
            if len(host) > _MAX_LENGTH or not self._names.include(host):
                return ForeignHost(host[:_MAX_LENGTH])
        if b"origin" in single:
            origin = single[b"origin"].decode("latin-1")
            if len(origin) > _MAX_LENGTH or not self._names.allow(origin, host):
                return ForeignOrigin(origin[:_MAX_LENGTH])
        return None


def is_loopback(address: str) -> bool:
    """Return whether an IP address is reachable only from this machine."""
    ip = ip_address(address)
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def is_private(host: str) -> bool:
    """Return whether a listening host is reachable only from this machine. Names other than localhost are not."""
    return _is_loopback(host.lower())


def _is_loopback(name: str) -> bool:
    """Return whether a browser treats the name as loopback: names below localhost never leave the machine."""
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
    """Return the host of `host[:port]`, without brackets and the trailing dot; None if there is none."""
    found = _AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]).removesuffix(".") if found else None
