"""The addresses of a listed name are checked, and the connection uses a checked address."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.tools.addresses import CheckedResolver, ForbiddenAddress, find_forbidden_reason, resolve
from forge_proxy.tools.callbacks import HttpExecution, HttpExecutor
from forge_proxy.tools.config import CallbackConfig, McpConfig
from forge_proxy.tools.mcp.executor import McpExecution, McpExecutor
from forge_proxy.tools.mcp.session_pool import McpUrl
from forge_proxy.tools.ports import SystemClock


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Make the loop resolve each name to these addresses in turn. Returns the list of resolved names."""
    asked: list[str] = []
    left = list(answers)

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = left.pop(0) if len(left) > 1 else left[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "fe80::1", "fd00:ec2::254", "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "ff02::1",
        "255.255.255.255", "::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
        "::127.0.0.1",
    ],
)  # fmt: skip
def test_a_name_must_not_resolve_to(address: str) -> None:
    assert find_forbidden_reason(address, is_wildcard=False) is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_loopback_is_allowed_for_a_full_name_but_not_for_a_wildcard(address: str) -> None:
    assert find_forbidden_reason(address, is_wildcard=False) is None
    assert find_forbidden_reason(address, is_wildcard=True) == "this machine"


@pytest.mark.parametrize(
    "address", ["10.0.0.5", "172.18.0.3", "192.168.1.9", "93.184.216.34", "fd12::1", "2606:4700::1"]
)
def test_private_addresses_are_allowed(address: str) -> None:
    assert find_forbidden_reason(address, is_wildcard=True) is None


async def test_an_address_resolves_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolve_to(monkeypatch, "10.0.0.1")

    assert [await resolve(host, 80, is_wildcard=False) for host in ("127.0.0.1", "[::1]")] == [["127.0.0.1"], ["::1"]]
    assert asked == []


async def callback(entry: str, url: str) -> ToolOutcome:
    config = CallbackConfig.model_validate({"allow": (entry,), "secret": "a secret of the tests"})
    http = AioHttp(connect_seconds=5, silence_seconds=60, resolver=CheckedResolver(config.allow))
    try:
        caller = HttpExecutor(config, http, SystemClock(), lambda _: None)
        return await caller.execute(HttpExecution(url=url, retries=0), ToolCall.of("look"), "k", "r")
    finally:
        await http.close()


async def test_a_callback_to_a_cloud_metadata_name_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "169.254.169.254")

    outcome = await callback("http://tools.example.com", "http://tools.example.com/latest")

    assert "tools.example.com resolves to 169.254.169.254, a link-local address" in outcome.text


async def test_a_callback_connects_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose address changes between lookups is resolved once."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"output": request.headers["Host"]})

    app = web.Application()
    app.router.add_post("/look", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    asked = resolve_to(monkeypatch, "127.0.0.1", "169.254.169.254")

    outcome = await callback(f"http://tools.example.com:{port}", f"http://tools.example.com:{port}/look")

    assert outcome.value == f"tools.example.com:{port}"
    assert asked == ["tools.example.com"]
    await runner.cleanup()


async def test_a_wildcard_name_that_resolves_to_loopback_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1")

    outcome = await callback("http://*.example.com:9", "http://evil.example.com:9/")

    assert "evil.example.com resolves to 127.0.0.1, this machine" in outcome.text


@pytest.mark.long
async def test_an_mcp_server_on_such_a_name_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "169.254.169.254")
    async with McpExecutor(McpConfig(allow=("http://*.example.com",)), lambda _: None) as servers:
        how = McpExecution(server=McpUrl(url="http://a.example.com/mcp"))

        outcome = await servers.execute(how, ToolCall.of("look"), "k", "run-1")

    assert "a.example.com resolves to 169.254.169.254, a link-local address" in outcome.text


async def test_a_name_with_one_forbidden_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, 80)) for address in ("93.184.216.34", "169.254.169.254")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)

    with pytest.raises(ForbiddenAddress):
        await resolve("tools.example.com", 80, is_wildcard=False)
