"""The callers' keys, and the middleware that asks for one. No key ever reaches a log, an answer or the backend."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from starlette.types import ASGIApp, Receive, Scope, Send

from forge_proxy.api.config import ServerConfig, ServerConfigError, check_key
from forge_proxy.api.errors import refuse
from forge_proxy.api.refusals import WrongKey

OPEN_PATHS = frozenset({"/health", "/healthz", "/readyz"})
"""What load balancers and container engines ask without a key. Everything else needs one."""

_HEADERS = frozenset({b"authorization", b"x-api-key"})


class Keys:
    """The keys that callers may use, kept as hashes of one length: comparing tells nothing about their lengths."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._hashes = tuple({_hash(key.encode()) for key in keys})

    def __len__(self) -> int:
        return len(self._hashes)

    def open_for(self, given: bytes) -> bool:
        """Whether what a caller sent is one of them, in a time that does not tell which or how nearly."""
        hashed = _hash(given)
        return sum(compare_digest(hashed, one) for one in self._hashes) > 0  # each one is looked at


def read_keys(config: ServerConfig) -> Keys:
    """The keys from the settings and from the file they name. Raises `ServerConfigError`."""
    keys = [key.get_secret_value() for key in config.api_keys]
    file = config.api_keys_file
    if file is None:
        return Keys(keys)
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as exc:
        why = (exc.strerror or str(exc)) if isinstance(exc, OSError) else "not UTF-8 text"
        raise ServerConfigError(f"server.api_keys_file {file}: {why}") from exc
    found = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not found:
        raise ServerConfigError(f"server.api_keys_file {file}: there is no key in it")
    for number, line in found:
        try:
            keys.append(check_key(line))
        except ValueError as exc:
            raise ServerConfigError(f"server.api_keys_file {file}, line {number}: {exc}") from exc
    return Keys(keys)


class RequireKey:
    """Pure ASGI middleware: without one of the keys there is a 401, but for `OPEN_PATHS`."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or turn it away before its body is read."""
        if scope["path"] in OPEN_PATHS:
            return await self._app(scope, receive, send)
        sent = [key for name, value in scope["headers"] if name in _HEADERS and (key := _key_in(name, value))]
        if any(self._keys.open_for(key) for key in sent):  # clients of Anthropic's API may send both headers
            return await self._app(scope, receive, send)
        return await refuse(WrongKey(sent=bool(sent)), scope, receive, send, {"www-authenticate": "Bearer"})


def _key_in(name: bytes, value: bytes) -> bytes | None:
    if name == b"x-api-key":
        return value.strip()
    scheme, _, key = value.strip().partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else None


def _hash(key: bytes) -> bytes:
    return sha256(key).digest()
