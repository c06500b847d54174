"""Finds a running model server on the usual ports, and identifies the kind of server at a URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from forge_proxy.backends.http import HttpClient
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.jsontypes import is_object

ServerKind = Literal["llama-server", "ollama", "openai", "forge-proxy"]

LLAMA_SERVER = "http://127.0.0.1:8080"
OLLAMA = "http://127.0.0.1:11434"
_USUAL: tuple[tuple[str, ServerKind], ...] = ((LLAMA_SERVER, "llama-server"), (OLLAMA, "ollama"))
_SECONDS = 1.0
OUR_HEADER = "x-forge-proxy"
"""A header of the daemon's own health responses, which prevents a daemon from using itself as the backend."""


@dataclass(frozen=True, slots=True)
class DetectedServer:
    """A server that responds at `url`, including a llama-server that is still loading its model."""

    kind: ServerKind
    url: str


async def find_server(http: HttpClient) -> DetectedServer | None:
    """Return the llama-server on port 8080, else the Ollama on port 11434; None if neither responds."""
    for url, kind in _USUAL:
        if await identify(url, http) == kind:
            return DetectedServer(kind, url)
    return None


async def identify(url: str, http: HttpClient) -> ServerKind | None:
    """Return the kind of the server at `url`; None if no server responds, or one that requires https."""
    root = url.rstrip("/").removesuffix("/v1")
    health = await _ask(f"{root}/health", http)
    if health is None:
        return None
    status, headers, body = health
    if status == 400 and b"https" in body.lower():  # such as "Client sent an HTTP request to an HTTPS server."
        return None
    if OUR_HEADER in headers:
        return "forge-proxy"
    if "llama.cpp" in headers.get("server", "") or (status == 503 and b"Loading model" in body):
        return "llama-server"
    version = await _ask(f"{root}/api/version", http)
    if version and version[0] == 200 and _has_version(version[2]):
        return "ollama"
    props = await _ask(f"{root}/props", http)
    if props and props[0] == 200 and b"default_generation_settings" in props[2]:
        return "llama-server"
    return "openai"


async def _ask(url: str, http: HttpClient) -> tuple[int, Mapping[str, str], bytes] | None:
    try:
        async with http.open("GET", url, seconds=_SECONDS) as response:
            return response.status, response.headers, await response.read()
    except BackendFault:
        return None


def _has_version(body: bytes) -> bool:
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return is_object(value) and isinstance(value.get("version"), str)
