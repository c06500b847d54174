"""Finds out if a URL has the wrong scheme: http for a server that speaks TLS, or https for one that does not."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit, urlunsplit

_SECONDS = 1.0
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")
"""OpenSSL's error reasons if the server does not speak TLS."""


async def find_other_scheme(url: str) -> str | None:
    """Return the URL with the scheme that the server uses; None if the URL has it already or no server responds.

    Call it if a request to `url` failed. It opens a connection for a TLS handshake, and if the server does not react to
    that, as a llama-server, another one for a request of `/`. It sends no key.
    """
    parts = urlsplit(url)
    speaks_tls = await _speaks_tls(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    if speaks_tls is None or speaks_tls == (parts.scheme == "https"):
        return None
    return urlunsplit(parts._replace(scheme="https" if speaks_tls else "http"))


async def _speaks_tls(host: str, port: int) -> bool | None:
    """Return whether a server speaks TLS; None if it cannot be determined."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # no request and no key is sent, so it may be any server
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context, ssl_handshake_timeout=_SECONDS)
    except ssl.SSLError as exc:
        return exc.reason not in _NOT_TLS  # other reasons: the server speaks TLS and rejects this handshake
    except TimeoutError:
        return False if await _speaks_http(host, port) else None
    except OSError:
        return None
    writer.transport.abort()
    return True


async def _speaks_http(host: str, port: int) -> bool:
    """Return whether a server that does not react to a TLS handshake, such as a llama-server, answers plain HTTP.

    An answer of 400 does not count: TLS servers send it, too.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                named = f"[{host}]" if ":" in host else host
                writer.write(f"GET / HTTP/1.1\r\nHost: {named}\r\nConnection: close\r\n\r\n".encode())
                version, status = (await reader.readexactly(12)).split()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, EOFError, ValueError):
        return False
    return version.startswith(b"HTTP/") and status != b"400"
