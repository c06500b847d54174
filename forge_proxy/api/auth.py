"""API keys and the middleware that requires one. No key ever reaches a log, a response or the backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from forge_proxy.api.access_denied import AccessDenied, AdminDisabled, WrongKey
from forge_proxy.api.config import ServerConfig, ServerConfigError, check_key
from forge_proxy.api.dashboard import DASHBOARD_PATHS
from forge_proxy.api.error_responses import refuse
from forge_proxy.api.identity import KEY_LABEL
from forge_proxy.api.origins import is_private

OPEN_PATHS = DASHBOARD_PATHS | {"/", "/health", "/healthz", "/readyz", "/docs", "/openapi.json"}
"""Paths that need no key: load balancers and container engines probe them, and browsers show them."""
METRICS_PATH = "/metrics"
_ADMINISTRATION = (
    "/admin/",
    METRICS_PATH,
    "/api/pull",
    "/api/push",
    "/api/create",
    "/api/copy",
    "/api/delete",
    "/api/blobs/",
)
"""Paths that need a key of the admin API: its own, the metrics, and those that change the models of an Ollama."""
_HEADERS = frozenset({b"authorization", b"x-api-key"})
MAX_LABEL = 64
"""Characters of a key's label."""


class KeySet:
    """A set of accepted keys, stored as hashes of equal length so that comparing does not reveal key lengths.

    A key may have a label, by which records name its client.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        """Accept `keys`, each with its label or an empty one."""
        self._labels = {_hash(key.encode()): label for key, label in keys.items()}
        self._hashes = tuple(self._labels)

    def __len__(self) -> int:
        return len(self._hashes)

    def label_of(self, key: bytes) -> str:
        """Return the label of an accepted key; empty if it has none."""
        return self._labels.get(_hash(key), "")

    def accepts(self, key: bytes) -> bool:
        """Return whether the key is accepted. The time taken does not reveal which key matches or how closely."""
        hashed = _hash(key)
        return sum(compare_digest(hashed, one) for one in self._hashes) > 0  # no early exit: constant time


def read_keys(config: ServerConfig) -> KeySet:
    """Read the API keys from the settings and from `server.api_keys_file`. Raises `ServerConfigError`."""
    return _read("server.api_keys_file", config.api_keys, config.api_keys_file)


def read_admin_keys(config: ServerConfig) -> KeySet:
    """Read the keys of the admin API. Raises `ServerConfigError`."""
    return _read("server.admin_keys_file", config.admin_keys, config.admin_keys_file)


def _read(setting: str, configured: Iterable[SecretStr], file: Path | None) -> KeySet:
    keys = {key.get_secret_value(): "" for key in configured}
    if file is None:
        return KeySet(keys)
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as exc:
        reason = (exc.strerror or str(exc)) if isinstance(exc, OSError) else "not UTF-8 text"
        raise ServerConfigError(f"{setting} {file}: {reason}") from exc
    found = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not found:
        raise ServerConfigError(f"{setting} {file}: the file contains no key")
    for number, line in found:
        key, label = _split_label(line)
        try:
            keys[check_key(key)] = label
        except ValueError as exc:
            raise ServerConfigError(f"{setting} {file}, line {number}: {exc}") from exc
    return KeySet(keys)


def _split_label(line: str) -> tuple[str, str]:
    """Return the key of a line, and the label behind ` # `, cut to what a record holds."""
    key, _, label = line.partition(" # ")
    return key.rstrip(), "".join(filter(str.isprintable, label.strip()))[:MAX_LABEL]


@dataclass(frozen=True, slots=True)
class AcceptedKeys:
    """The accepted keys of each group of routes."""

    api: KeySet
    admin: KeySet
    """If empty, `api` applies to the admin API too."""
    is_admin_open: bool
    """Whether the admin API is enabled without admin keys."""
    are_metrics_open: bool = False
    """Whether `/metrics` needs no key."""


def read_accepted_keys(config: ServerConfig) -> AcceptedKeys:
    """Read all keys from the settings and the key files. Raises `ServerConfigError`."""
    is_admin_open = config.allow_public_without_keys or is_private(config.host)
    return AcceptedKeys(read_keys(config), read_admin_keys(config), is_admin_open, config.metrics_public)


class KeyRing:
    """Checks the keys of requests. `replace` exchanges the accepted keys atomically while requests arrive."""

    def __init__(self, config: ServerConfig) -> None:
        self._keys = read_accepted_keys(config)

    def replace(self, keys: AcceptedKeys) -> None:
        """Accept these keys instead, from the next request on."""
        self._keys = keys

    def refusal(self, path: str, sent: list[bytes]) -> AccessDenied | None:
        """Return the error for a request that sent these keys; None if it is allowed."""
        if path in OPEN_PATHS or (path == METRICS_PATH and self._keys.are_metrics_open):
            return None
        keys, wanted = self._keys.api, "server.api_keys"
        if path.startswith(_ADMINISTRATION):
            if self._keys.admin:
                keys, wanted = self._keys.admin, "server.admin_keys"
            elif not self._keys.is_admin_open:
                return AdminDisabled()
        if not keys or any(keys.accepts(key) for key in sent):  # clients of Anthropic's API may send both headers
            return None
        return WrongKey(sent=bool(sent), wanted=wanted)

    def label_of(self, sent: list[bytes]) -> str:
        """Return the label of the API key that an accepted request sent; empty if it has none."""
        return next((label for key in sent if (label := self._keys.api.label_of(key))), "")


class ApiKeyMiddleware:
    """Pure ASGI middleware that responds with 401 if no accepted key was sent, or 403 if the admin API is disabled."""

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it before its body is read."""
        sent = [key for name, value in scope["headers"] if name in _HEADERS and (key := _key_in(name, value))]
        refusal = self._keys.refusal(scope["path"], sent)
        if refusal is None:
            scope[KEY_LABEL] = self._keys.label_of(sent)
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
