"""Asks one question through the configuration that a client has now, and reports the reply. For `connect --check`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.questions import CheckReply, error_in, headers_for, question_for, reply_in
from forge_proxy.cli.connect.setups import ClientConfigFile, DaemonAddress
from forge_proxy.cli.connect.write import read_values
from forge_proxy.cli.connect.written import READERS, ClientFile, Endpoint, IncompleteConfig
from forge_proxy.client.error_messages import describe_transport_error
from forge_proxy.core.errors import ForgeError

if TYPE_CHECKING:
    import httpx

_SECONDS = 300.0
"""The model may have to be loaded first."""
_CONNECT_SECONDS = 10.0
_SHOWN_CHARACTERS = 200
_OF_NO_DAEMON = DaemonAddress("", "", "", 1)
"""The paths of a client's files depend on no address."""


class CheckFailed(ForgeError):
    """The configured endpoint did not answer the question; the message states why and what to do."""


def check(client: str, variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Ask the question; return the rows to print. `variables` are set in addition to those of the environment.

    Raises `CannotWrite`, `IncompleteConfig` or `CheckFailed`.
    """
    setup = CLIENTS[client](_OF_NO_DAEMON)
    reader = READERS.get(client)
    if reader is None:
        place = f": look at {setup.dialog.place}" if setup.dialog else ""
        raise IncompleteConfig(f"the settings of {client} cannot be read from here{place}")
    home = Path.home()
    try:
        files = [_read(file, home) for file in setup.files]
        endpoint = reader(files, {**os.environ, **variables})
        endpoint = endpoint if endpoint.model else replace(endpoint, model=_first_model(endpoint))
    except IncompleteConfig as exc:
        source = "--write" if setup.files else f'eval "$(forge-proxy connect {client})"'
        raise IncompleteConfig(f"{exc}; forge-proxy connect {client} sets it ({source})") from exc
    begun = time.monotonic()
    reply = _ask(client, endpoint)
    return [
        ("configuration", ", ".join(file.path for file in files) or "environment variables"),
        ("request", f"POST {endpoint.url}, model {endpoint.model}, {'with a' if endpoint.key else 'without a'} key"),
        ("reply", f"{_quote_reply(reply)} ({_tokens(reply)}{time.monotonic() - begun:.1f} s)"),
    ]


def _read(file: ClientConfigFile, home: Path) -> ClientFile:
    path, values = read_values(file, home)
    if values is None:
        raise IncompleteConfig(f"{path} does not exist")
    return ClientFile(str(path), values)


def _ask(client: str, endpoint: Endpoint) -> CheckReply:
    response = _send("POST", endpoint, endpoint.url, question_for(endpoint))
    content = _json(response)
    where = f"POST {endpoint.url}"
    if not response.is_success:
        message = error_in(content) or "no message"
        raise CheckFailed(f"{where}: status {response.status_code}: {message}{_advice(client, response.status_code)}")
    reply = reply_in(endpoint, content) if isinstance(content, dict) else None  # pyright: ignore[reportUnknownArgumentType]
    if reply is None:
        raise CheckFailed(
            f"{where}: the body of the response is not one of this API; is another server at this address?"
        )
    return reply


def _first_model(endpoint: Endpoint) -> str:
    """Return the model that the server lists first. Raises `CheckFailed`."""
    url = endpoint.url.removesuffix("/chat/completions") + "/models"
    content = _json(_send("GET", endpoint, url))
    try:
        return str(content["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as exc:
        raise CheckFailed(f"GET {url}: the server lists no models") from exc


def _send(method: str, endpoint: Endpoint, url: str, body: dict[str, Any] | None = None) -> httpx.Response:
    import httpx  # local import: --help does not need HTTP

    timeout = httpx.Timeout(_SECONDS, connect=_CONNECT_SECONDS)
    try:
        return httpx.request(method, url, json=body, headers=headers_for(endpoint), timeout=timeout)
    except (httpx.TransportError, httpx.InvalidURL) as exc:
        raise CheckFailed(
            f"{method} {url}: no response ({describe_transport_error(exc)}); start the daemon with "
            "`forge-proxy serve`, or correct the address with --write"
        ) from exc


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _advice(client: str, status: int) -> str:
    match status:
        case 401 | 403:
            return f"; write another key: forge-proxy connect {client} --write --key KEY"
        case 404:
            return f"; the daemon serves no such route or model: forge-proxy connect {client}"
        case _:
            return ""


def _quote_reply(reply: CheckReply) -> str:
    text = " ".join(reply.text.split())
    return text[:_SHOWN_CHARACTERS] or "no text, which is normal for a model that reasons first"


def _tokens(reply: CheckReply) -> str:
    if reply.prompt_tokens is None or reply.completion_tokens is None:
        return ""
    return f"{reply.prompt_tokens} + {reply.completion_tokens} tokens, "
