"""The daemon that runs, asked over HTTP by the commands that look at it or change it."""

from __future__ import annotations

from typing import Any

from forge_proxy.core.errors import ForgeError

DEFAULT_URL = "http://127.0.0.1:8081"
_CONNECT_SECONDS = 10.0
_SECONDS = 600.0
"""Switching a budget may load a model anew, which takes minutes."""


class NoDaemon(ForgeError):
    """No daemon answers, or what answers is none."""


class RefusedByDaemon(ForgeError):
    """The daemon's own words for what it does not do."""


class Remote:
    """One daemon at a URL, with or without `/v1`. `key` is an admin key, or a caller's for what callers may ask."""

    def __init__(self, url: str, key: str | None) -> None:
        self.root = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """Ask the admin API. Raises `NoDaemon` or `RefusedByDaemon`."""
        return self.ask(method, f"/admin/v1/{path}", body, query)

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, query: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Ask any route. Raises like `admin`."""
        import httpx  # the help text needs no HTTP

        timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
        try:
            answer = httpx.request(
                method, self.root + path, json=body, params=query, headers=self._headers, timeout=timeout
            )
            said: Any = answer.json()
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            raise NoDaemon(
                f"no daemon answers at {self.root} ({str(exc) or type(exc).__name__}); start one with 'forge-proxy "
                "serve', or say where it is with --url or FORGE_PROXY_URL"
            ) from exc
        except ValueError as exc:
            raise NoDaemon(f"what answers at {self.root} is no forge-proxy with an admin API") from exc
        if answer.is_success and isinstance(said, dict):
            return said  # pyright: ignore[reportUnknownVariableType]
        raise RefusedByDaemon(_words(said, answer.status_code))


def _words(said: Any, status: int) -> str:
    error = said.get("error") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(error, dict) and "message" in error:
        message = str(error["message"])  # pyright: ignore[reportUnknownArgumentType]
        if status == 401:  # the variable is for admin keys alone
            message += "; give it with --key" + (" or FORGE_PROXY_KEY" if "admin_keys" in message else "")
        return message
    return f"the daemon answered {status}"
