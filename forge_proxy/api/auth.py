"""The callers' keys, and the middleware that asks for one. No key ever reaches a log, an answer or the backend."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from forge_proxy.api.access_denied import AccessDenied, AdminDisabled, WrongKey
from forge_proxy.api.config import ServerConfig, ServerConfigError, check_key
from forge_proxy.api.errors import refuse
from forge_proxy.api.origins import is_private

OPEN_PATHS = frozenset({"/", "/health", "/healthz", "/readyz", "/docs", "/openapi.json"})
"""What load balancers and container engines ask without a key, and what browsers show. Everything else needs one."""

_HEADERS = frozenset({b"authorization", b"x-api-key"})


class KeySet:
    """The keys that callers may use, kept as hashes of one length: comparing tells nothing about their lengths."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._hashes = tuple({_hash(key.encode()) for key in keys})

    def __len__(self) -> int:
        return len(self._hashes)

    def open_for(self, given: bytes) -> bool:
        """Whether what a caller sent is one of them, in a time that does not tell which or how nearly."""
        hashed = _hash(given)
        return sum(compare_digest(hashed, one) for one in self._hashes) > 0  # each one is looked at


def read_keys(config: ServerConfig) -> KeySet:
    """The callers' keys from the settings and from the file they name. Raises `ServerConfigError`."""
    return _read("server.api_keys_file", config.api_keys, config.api_keys_file)


def read_admin_keys(config: ServerConfig) -> KeySet:
    """Those of the admin API. Raises `ServerConfigError`."""
    return _read("server.admin_keys_file", config.admin_keys, config.admin_keys_file)


def _read(setting: str, said: Iterable[SecretStr], file: Path | None) -> KeySet:
    keys = [key.get_secret_value() for key in said]
    if file is None:
        return KeySet(keys)
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as exc:
        why = (exc.strerror or str(exc)) if isinstance(exc, OSError) else "not UTF-8 text"
        raise ServerConfigError(f"{setting} {file}: {why}") from exc
    found = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not found:
        raise ServerConfigError(f"{setting} {file}: there is no key in it")
    for number, line in found:
        try:
            keys.append(check_key(line))
        except ValueError as exc:
            raise ServerConfigError(f"{setting} {file}, line {number}: {exc}") from exc
    return KeySet(keys)


class KeyRing:
    """Which keys open what. Replaced as a whole by `renew`, while requests come in."""

    def __init__(self, config: ServerConfig) -> None:
        self.renew(config)

    def renew(self, config: ServerConfig) -> None:
        """Go by these settings from now on. Raises `ServerConfigError`, and then by those before."""
        api, admin = read_keys(config), read_admin_keys(config)
        self._api, self._admin = api, admin
        self._admin_open = config.allow_public_without_keys or is_private(config.host)

    def refusal(self, path: str, sent: list[bytes]) -> AccessDenied | None:
        """Why a request that sent these keys is not let in; None where it is."""
        if path in OPEN_PATHS:
            return None
        keys, wanted = self._api, "server.api_keys"
        if path.startswith("/admin/"):
            if self._admin:
                keys, wanted = self._admin, "server.admin_keys"
            elif not self._admin_open:
                return AdminDisabled()
        if not keys or any(keys.open_for(key) for key in sent):  # clients of Anthropic's API may send both headers
            return None
        return WrongKey(sent=bool(sent), wanted=wanted)


class RequireKey:
    """Pure ASGI middleware: without one of the keys that the door wants there is a 401."""

    def __init__(self, app: ASGIApp, door: KeyRing) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or turn it away before its body is read."""
        sent = [key for name, value in scope["headers"] if name in _HEADERS and (key := _key_in(name, value))]
        refusal = self._door.refusal(scope["path"], sent)
        if refusal is None:
            return await self._app(scope, receive, send)
        headers = {"www-authenticate": "Bearer"} if isinstance(refusal, WrongKey) else {}
        return await refuse(refusal, scope, receive, send, headers)


def _key_in(name: bytes, value: bytes) -> bytes | None:
    if name == b"x-api-key":
        return value.strip()
    scheme, _, key = value.strip().partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else None


def _hash(key: bytes) -> bytes:
    return sha256(key).digest()
