"""API keys, Host and Origin: which requests are accepted, and what a page of an allowed origin receives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from forge_proxy.api.app import create_app
from forge_proxy.api.auth import read_keys
from forge_proxy.api.config import ServerConfig, ServerConfigError
from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from tests.fakes.scripted import ScriptedHttp, StillClock
from tests.folding import folded

KEY, OTHER = "sk-alice", "sk-bob"
PAGE = "https://chat.example.org"


async def ask(
    headers: Mapping[str, str] | None = None, path: str = "/v1/models", method: str = "GET", **settings: Any
) -> httpx.Response:
    """One request to an application with these settings of the server."""
    backend = OpenAICompatible("http://scripted", ScriptedHttp([]))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None))
    app = create_app(engine, backend, ServerConfig(**settings))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8081") as client:
        return await client.request(method, path, headers=dict(headers or {}))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": f"Bearer {KEY}"}, 200),
        ({"Authorization": f"bearer  {OTHER} "}, 200),
        ({"x-api-key": OTHER}, 200),
        ({"Authorization": "Bearer sk-ant-of-another", "x-api-key": KEY}, 200),
        ({}, 401),
        ({"Authorization": KEY}, 401),
        ({"Authorization": f"Basic {KEY}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": f"Bearer {KEY}x"}, 401),
        ({"Authorization": f"Bearer {KEY[:-1]}"}, 401),
        ({"x-api-key": ""}, 401),
        ({"x-api-key": f"{KEY},{OTHER}"}, 401),
    ],
)
async def test_requests_need_a_valid_key(headers: dict[str, str], status: int) -> None:
    answer = await ask(headers, api_keys=[KEY, OTHER])

    assert answer.status_code == status


async def test_a_401_names_the_headers_and_no_key() -> None:
    answer = await ask({"x-api-key": "wrong-key", "x-request-id": "mine"}, api_keys=[KEY])

    assert (answer.headers["www-authenticate"], answer.headers["x-request-id"]) == ("Bearer", "mine")
    error = answer.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
    assert "server.api_keys" in error["message"]
    assert KEY not in answer.text
    assert "wrong-key" not in answer.text


@pytest.mark.parametrize(
    ("path", "open_to_all"),
    [
        ("/health", True),
        ("/healthz", True),
        ("/readyz", True),
        ("/v1/models", False),
        ("/v1/models/scripted", False),
        ("/nowhere", False),
        ("/healthz/", False),
        ("/healthz/../v1/models", False),
        ("/%2Fhealthz", False),
        ("/", True),
    ],
)
async def test_every_route_except_health_needs_a_key(path: str, open_to_all: bool) -> None:
    answer = await ask(path=path, api_keys=[KEY])

    assert (answer.status_code == 401) is not open_to_all


async def test_without_keys_no_key_is_needed() -> None:
    assert (await ask({"Authorization": "Bearer none"})).status_code == 200


@folded
@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8081", True),
        ("localhost.:80", True),
        ("forge.localhost", True),
        ("127.0.0.1:1", True),
        ("[::1]:8081", True),
        ("192.168.1.7:8081", True),
        ("[fd00::7]", True),
        ("host.docker.internal:8081", True),
        ("forge-proxy:8081", True),
        ("box.lan", True),
        ("evil.example", False),
        ("evil.example:8081", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil-localhost", False),
        ("127.0.0.1@evil.example", False),
        ("localhost/", False),
        ("[evil.example]", False),
        ("::1", False),
        ("", False),
        ("localhost, evil.example", False),
        ("x" * 5000, False),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/healthz"])
async def test_an_unknown_host_name_is_rejected_on_every_route(host: str, ours: bool, path: str) -> None:
    answer = await ask({"Host": host}, path, host="box.lan", allowed_hosts=["Forge-Proxy"])

    assert answer.status_code == (200 if ours else 403)
    if not ours:
        error = answer.json()["error"]
        assert error["code"] == "host_not_allowed"
        assert "server.allowed_hosts" in error["message"]


@folded
@pytest.mark.parametrize(
    ("origin", "may_ask"),
    [
        ("http://127.0.0.1:8081", True),
        ("http://localhost:3000", True),
        ("https://localhost", True),
        ("http://[::1]:5173", True),
        ("http://app.localhost:3000", True),
        (PAGE, True),
        ("app://obsidian.md", True),
        ("http://chat.example.org", False),
        ("https://chat.example.org:8443", False),
        ("https://chat.example.org.evil.example", False),
        ("http://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://192.168.1.7:8081", False),
        ("app://localhost", False),
        ("null", False),
        ("", False),
        ("http://", False),
    ],
)
async def test_a_web_page_of_an_unknown_origin_is_rejected(origin: str, may_ask: bool) -> None:
    answer = await ask({"Origin": origin}, allowed_origins=[f"{PAGE}/", "app://obsidian.md"])

    assert answer.status_code == (200 if may_ask else 403)
    if not may_ask:
        error = answer.json()["error"]
        assert error["code"] == "origin_not_allowed"
        assert "server.allowed_origins" in error["message"]


@pytest.mark.parametrize(
    ("host", "origin", "may_ask"),
    [
        ("box.lan", "http://box.lan", True),
        ("box.lan:80", "http://box.lan", True),
        ("BOX.lan:8081", "http://box.lan:8081", True),
        ("box.lan", "https://box.lan", True),
        ("box.lan:8081", "http://box.lan:8082", False),
        ("box.lan:8081", "http://box.lan", False),
    ],
)
async def test_the_daemons_own_pages_may_send_requests_under_any_of_its_names(
    host: str, origin: str, may_ask: bool
) -> None:
    answer = await ask({"Host": host, "Origin": origin}, allowed_hosts=["box.lan"])

    assert answer.status_code == (200 if may_ask else 403)


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/chat/completions"), ("PUT", "/admin/v1/budget")])
async def test_a_preflight_of_an_allowed_origin_is_answered_without_a_key(method: str, path: str) -> None:
    asks = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,x-stainless-os"}

    answer = await ask({"Origin": PAGE, **asks}, path, "OPTIONS", api_keys=[KEY], allowed_origins=[PAGE])

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert method in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization,x-stainless-os"


@pytest.mark.parametrize("key", [KEY, "wrong"])
async def test_a_page_of_an_allowed_origin_can_read_responses_and_rejections(key: str) -> None:
    answer = await ask({"Origin": PAGE, "x-api-key": key}, api_keys=[KEY], allowed_origins=[PAGE])

    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "x-forge-outcome" in answer.headers["access-control-expose-headers"]
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("settings", [{}, {"allowed_origins": [PAGE]}])
async def test_other_pages_get_no_cors_headers(settings: dict[str, Any]) -> None:
    for origin in ("http://localhost:3000", "http://evil.example"):
        answer = await ask({"Origin": origin}, **settings)

        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"allowed_origins": ["*"]}, "no wildcard"),
        ({"allowed_origins": ["https://*.example.org"]}, "no wildcard"),
        ({"allowed_origins": ["chat.example.org"]}, "such as https://"),
        ({"allowed_hosts": ["*"]}, "no wildcard"),
        ({"allowed_hosts": ["http://forge-proxy"]}, "without scheme and port"),
        ({"allowed_hosts": ["forge-proxy:8081"]}, "without scheme and port"),
        ({"api_keys": [""]}, "visible ASCII"),
        ({"api_keys": ["two words"]}, "visible ASCII"),
        ({"api_keys": ['["json"]']}, "visible ASCII"),
        ({"max_body_mb": 0}, "greater than 0"),
    ],
)
def test_an_unusable_access_setting_is_an_error(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ServerConfig(**settings)


def test_keys_are_read_from_the_key_file_too(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# people\n\n  {OTHER}  \n{KEY}\n")

    keys = read_keys(ServerConfig(api_keys=[KEY], api_keys_file=file))  # pyright: ignore[reportArgumentType]

    assert len(keys) == 2
    assert all(keys.accepts(key.encode()) for key in (KEY, OTHER))
    assert not keys.accepts(b"# people")


def test_a_key_in_a_file_may_have_a_label(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{KEY} # Anna's laptop\n{OTHER}\n")

    keys = read_keys(ServerConfig(api_keys_file=file))

    assert keys.accepts(KEY.encode())
    assert (keys.label_of(KEY.encode()), keys.label_of(OTHER.encode()), keys.label_of(b"x")) == (
        "Anna's laptop",
        "",
        "",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("# none yet\n", "the file contains no key"),
        (f"{KEY}\nmy secret\n", "line 2: a key is made"),
    ],
)
def test_a_key_file_that_cannot_be_used_is_named_and_not_quoted(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "keys"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ServerConfigError, match=said) as refused:
        read_keys(ServerConfig(api_keys_file=file))

    assert str(file) in str(refused.value)
    assert "secret" not in str(refused.value)
