"""docs/tools.md is correct: its tool runs unchanged, and its settings and declarations can be used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.core.messages import ToolCall
from forge_proxy.tools.callbacks import HttpExecution, HttpExecutor
from forge_proxy.tools.config import CallbackConfig, ToolSettings
from forge_proxy.tools.mcp.executor import McpExecution
from forge_proxy.tools.ports import SystemClock
from tests.fakes.processes import closed_port, until

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
SECRET = "a secret of the tests"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def address() -> Generator[str]:
    """The tool of the page, listening."""
    (program,) = blocks("python")
    with closed_port() as port:
        pass
    command = [sys.executable, "-W", "error", "-c", program.replace("9000", str(port))]
    with subprocess.Popen(command, env={**os.environ, "TOOL_SECRET": SECRET}, stderr=subprocess.DEVNULL) as running:
        until(lambda: _answers(port), "the tool listens")
        yield f"http://127.0.0.1:{port}"
        running.kill()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 501
    except httpx.HTTPError:
        return False


async def call(address: str, secret: str, city: str) -> str:
    config = CallbackConfig.model_validate({"allow": (address,), "secret": secret})
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    try:
        callback = HttpExecutor(config, http, SystemClock(), lambda _: None)
        how = HttpExecution(url=f"{address}/weather", retries=0)
        return (await callback.execute(how, ToolCall.of("weather", {"city": city}), "run-1/0/0", "run-1")).text
    finally:
        await http.close()


async def test_the_tool_answers_what_is_signed_once_for_each_key(address: str) -> None:
    assert await call(address, SECRET, "Oslo") == "sunny in Oslo"
    assert await call(address, SECRET, "Rome") == "sunny in Oslo"  # the key is the same, and this call was not repeated


async def test_the_tool_answers_nothing_with_another_signature(address: str) -> None:
    assert "answered 403" in await call(address, "a secret of somebody else", "Oslo")


def test_the_tool_answers_nothing_without_a_signature(address: str) -> None:
    assert httpx.post(f"{address}/weather", json={}).status_code == 403


def test_the_settings_can_be_used() -> None:
    for block in blocks("yaml"):
        settings: dict[str, Any] = yaml.safe_load(block)["tools"]
        if "callbacks" in settings:
            settings["callbacks"]["secret"] = SECRET
        ToolSettings.model_validate(settings)


def test_the_declarations_are_valid() -> None:
    models = {"http": HttpExecution, "mcp": McpExecution}
    declared = [json.loads(block)["execute"] for block in blocks("json")]

    assert [models[execute["by"]].model_validate(execute).by for execute in declared] == ["http", "mcp"]
