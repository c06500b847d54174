"""Requests to the servers of clients: signatures, and the list of allowed origins."""

from __future__ import annotations

import hashlib
import hmac

from forge_proxy.tools.config import CallbackConfig
from forge_proxy.tools.errors import NotAllowed
from forge_proxy.tools.origins import is_listed, origin_of


def check_listed(url: str, config: CallbackConfig) -> None:
    """Raise `NotAllowed` if the origin of the URL is not listed."""
    if not is_listed(url, config.allow):
        listed = ", ".join(config.allow) or "no origin"
        raise NotAllowed(
            f"{origin_of(url)} is not among the hosts that may be called: add it to tools.callbacks.allow,"
            f" which lists {listed}"
        )


def sign_request(config: CallbackConfig, body: bytes, key: str, now: float) -> dict[str, str]:
    """Return the headers of one request; the signature is not reused, because servers may reject old timestamps."""
    timestamp = str(int(now))
    return {
        "Content-Type": "application/json",
        "User-Agent": "forge-proxy",
        # The server may close a reused connection at any moment, and the request would be sent a second time.
        "Connection": "close",
        "Idempotency-Key": key,
        "X-Forge-Timestamp": timestamp,
        "X-Forge-Signature": f"v1={_sign(config, timestamp, body)}",
    }


def _sign(config: CallbackConfig, timestamp: str, body: bytes) -> str:
    if config.secret is None:
        raise AssertionError("the settings require a secret for callbacks")
    signed = timestamp.encode() + b"." + body
    return hmac.new(config.secret.get_secret_value().encode(), signed, hashlib.sha256).hexdigest()
