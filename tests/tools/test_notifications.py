"""Notifications of jobs, tested with a real server."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from aiohttp import web
from pydantic import SecretStr

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.engine.events import NotificationFailed
from forge_proxy.tools.config import CallbackConfig
from forge_proxy.tools.notifications import CallbackNotifications, check_notify_url
from tests.tools.test_callbacks import SECRET, ToolServer

KEY, BODY = "job_1:3", b'{"type": "job.status"}'


async def notify(server: ToolServer, *, listed: bool = True) -> list[str]:
    """Send a notification, and return the errors that are reported."""
    async with server.served() as url:
        config = CallbackConfig(allow=(url,) if listed else (), secret=SecretStr(SECRET))
        http = AioHttp(connect_seconds=5, silence_seconds=5)
        try:
            await CallbackNotifications(config, http, server.time, server.events.append).send(f"{url}/hook", BODY, KEY)
        finally:
            await http.close()
    return [event.error for event in server.events if isinstance(event, NotificationFailed)]


async def test_a_notification_is_a_signed_post_with_a_key() -> None:
    server = ToolServer(web.Response(status=204))

    assert await notify(server) == []

    (request,) = server.requests
    signed = f"{request.headers['X-Forge-Timestamp']}.".encode() + BODY
    signature = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert (request.method, request.path, server.bodies) == ("POST", "/hook", [BODY])
    assert request.headers["X-Forge-Signature"] == f"v1={signature}"
    assert request.headers["Idempotency-Key"] == KEY


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (503, 3), (429, 3), (404, 1), (301, 1), (410, 1)])
async def test_temporary_failures_are_retried_with_the_same_key(status: int, tries: int) -> None:
    server = ToolServer(web.Response(status=status))

    assert await notify(server) == [f"it answered {status}"] * tries

    assert [request.headers["Idempotency-Key"] for request in server.requests] == [KEY] * tries
    assert server.time.slept == [0.5, 1.0][: tries - 1]


async def test_an_origin_that_is_no_longer_listed_is_not_called() -> None:
    server = ToolServer(web.Response())

    (error,) = await notify(server, listed=False)

    assert "add it to tools.callbacks.allow" in error
    assert server.requests == []


@pytest.mark.parametrize("url", ["http://other.example.com/", "no url", "http://user@client.example.com/"])
def test_a_url_that_may_not_be_called_is_refused(url: str) -> None:
    config = CallbackConfig(allow=("http://client.example.com",), secret=SecretStr(SECRET))
    check_notify_url("http://client.example.com/hook?x=1", config)

    with pytest.raises(InvalidRequest) as refused:
        check_notify_url(url, config)

    assert refused.value.at == "notify_url"
