"""The daemon embedded in a program, with the real openai SDK as client."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from pathlib import Path

import openai
import pytest
import structlog

from forge_proxy import BackendChoiceError, ProxyServer, Settings, SettingsError
from forge_proxy.api.server import CannotListen
from forge_proxy.backends.llama_server.instance import CannotStart
from tests.fakes.llama_server import Fake
from tests.fakes.processes import children, closed_port, model_server, until
from tests.live.weather import ASK_PARIS, MODEL, TOOLS


@pytest.fixture(autouse=True)
def _own_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")


def asked(proxy: ProxyServer) -> str:
    """The tool that is called when the user asks for the weather."""
    with openai.OpenAI(base_url=proxy.url, api_key="none", max_retries=0, timeout=60) as client:
        answer = client.chat.completions.create(model=MODEL, messages=ASK_PARIS, tools=TOOLS, temperature=0)
    (call,) = answer.choices[0].message.tool_calls or []
    return call.function.name if call.type == "function" else ""


def started_as(fake: Fake) -> Settings:
    """Return settings with which the fake program serves model files."""
    return Settings.model_validate({"backend": {"llama_server": {"binary": fake.path}}})


def ours() -> list[str]:
    """Return the names of the threads that proxy servers have started."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("forge-proxy", "asyncio-wait"))]


async def test_two_servers_run_side_by_side_and_leave_no_process_or_thread() -> None:
    before = set(children(os.getpid()))

    async with ProxyServer(backend="embedded", port=0) as one, ProxyServer(backend="embedded", port=0) as other:
        # The SDK blocks this event loop, which neither server uses.
        assert [asked(one), asked(other)] == ["get_weather", "get_weather"]
        assert one.url != other.url
        assert len(set(children(os.getpid())) - before) >= 2

    until(lambda: not set(children(os.getpid())) - before, "their processes have ended")
    until(lambda: not ours(), "their threads have ended")


def test_a_server_runs_without_an_event_loop_and_restarts() -> None:
    proxy = ProxyServer(backend="embedded", port=0)

    for _ in range(2):
        with proxy:
            assert asked(proxy) == "get_weather"
        with pytest.raises(RuntimeError, match="is not running"):
            _ = proxy.url


async def test_signal_handlers_and_logging_of_the_program_are_unchanged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.getsignal(number) for number in numbers]
    handlers = [*logging.getLogger("forge_proxy").handlers, *logging.getLogger("uvicorn.error").handlers]
    configured = structlog.get_config()
    caplog.set_level("INFO", "forge_proxy")

    async with ProxyServer(backend="embedded", port=0) as proxy:
        asked(proxy)
        assert [signal.getsignal(number) for number in numbers] == before

    assert [*logging.getLogger("forge_proxy").handlers, *logging.getLogger("uvicorn.error").handlers] == handlers
    assert structlog.get_config() == configured
    assert "listening: url=http://127.0.0.1:" in caplog.text
    assert "answered: " in caplog.text
    assert "Paris" not in caplog.text
    assert capsys.readouterr() == ("", "")


async def test_a_rejected_request_is_logged_with_its_message(caplog: pytest.LogCaptureFixture) -> None:
    with model_server() as server:
        async with (
            ProxyServer(url=server.url, port=0) as proxy,
            openai.AsyncOpenAI(
                base_url=proxy.url, api_key="none", max_retries=0, default_headers={"Host": "evil.example"}
            ) as client,
        ):
            with pytest.raises(openai.PermissionDeniedError):
                await client.models.list()

    assert "refused /v1/models: " in caplog.text


async def test_a_port_in_use_is_an_error_at_the_start() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        proxy = ProxyServer(backend="embedded", port=taken.getsockname()[1])

        with pytest.raises(CannotListen, match="is already in use"):
            await proxy.start()

    await proxy.start()  # it is free by now
    await proxy.stop()
    await proxy.stop()  # which it has already


async def test_a_model_that_fails_to_load_is_an_error_at_the_start(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.behaves("crashes")
    proxy = ProxyServer(started_as(fake), gguf_path=fake.model, port=0)

    with pytest.raises(CannotStart, match="out of memory"):
        await proxy.start()
    with pytest.raises(CannotStart, match="out of memory"), proxy:
        pass

    until(lambda: not ours(), "its thread has ended")


async def test_a_cancelled_start_leaves_no_process_or_thread(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.behaves("hangs")
    before = set(children(os.getpid()))
    proxy = ProxyServer(started_as(fake), gguf_path=fake.model, port=0)
    starting = asyncio.create_task(proxy.start())
    await asyncio.to_thread(until, lambda: bool(fake.starts), "its model server has been started")

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    until(lambda: not set(children(os.getpid())) - before, "its processes have ended")
    until(lambda: not ours(), "its thread has ended")


async def test_a_second_start_is_an_error() -> None:
    with closed_port() as port:
        async with ProxyServer(url=f"http://127.0.0.1:{port}", port=0) as proxy:
            with pytest.raises(RuntimeError, match="already running"):
                await proxy.start()
            assert proxy.url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"port": 70_000}, SettingsError, "^port: "),
        ({"host": ""}, SettingsError, "^host: "),
        ({"backend": "openai"}, BackendChoiceError, "needs --backend-url"),
    ],
)
def test_invalid_options_are_errors_of_the_constructor(
    options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ProxyServer(**options)  # pyright: ignore[reportArgumentType]
