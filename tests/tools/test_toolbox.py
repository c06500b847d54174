"""The door of the package: a tool is declared, and called by what its declaration says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import SecretStr

from forge_proxy.backends.http import AioHttp
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.tools.config import ByHttp, ByMcp, CallbackConfig, McpConfig, McpUrl, ToolSettings
from forge_proxy.tools.executors import ToolExecutors
from forge_proxy.tools.ports import SystemClock
from tests.tools.test_callbacks import Tool, answers
from tests.tools.test_mcp import ignore, program

AT = "tools[2]"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


@pytest.fixture
async def served() -> AsyncGenerator[tuple[ToolExecutors, str]]:
    """A toolbox with an HTTP server, whose address comes along, and an MCP server called `here`."""
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    async with Tool(answers({"output": "by http"})).served() as address:
        settings = ToolSettings(
            callbacks=CallbackConfig(allow=(address,), secret=SecretStr("a secret of the tests")),
            mcp=McpConfig(servers={"here": program()}),
        )
        async with ToolExecutors(settings, http, SystemClock(), ignore) as toolbox:
            yield toolbox, address
    await http.close()


async def test_each_tool_is_executed_as_it_is_declared(served: tuple[ToolExecutors, str]) -> None:
    toolbox, address = served
    how = {"ask": ByHttp(url=address), "welcome": ByMcp(server="here", tool="greet")}
    executor = toolbox.executor(how, "run-1")

    assert await executor.execute(ToolCall("ask"), "k1") == ToolOutcome("by http", value="by http")
    welcomed = await executor.execute(ToolCall.of("welcome", {"name": "Ann"}), "k2")
    assert welcomed is not None
    assert welcomed.text == "Hello Ann"
    assert await executor.execute(ToolCall("by_the_caller"), "k3") is None


async def test_what_a_declaration_leaves_out_is_filled_in_by_the_mcp_server(served: tuple[ToolExecutors, str]) -> None:
    toolbox, _ = served
    how = ByMcp(server="here", tool="weather")

    filled = await toolbox.declare(AT, "sky", how)
    said = await toolbox.declare(AT, "sky", how, "How it is outside.", SCHEMA)

    assert (filled.name, filled.description) == ("sky", "The weather in a city.")
    assert isinstance(filled.parameters, dict)
    assert filled.parameters["required"] == ["city"]
    assert said == ToolSpec("sky", SCHEMA, "How it is outside.")


async def test_other_tools_are_as_they_are_declared(served: tuple[ToolExecutors, str]) -> None:
    toolbox, address = served

    assert await toolbox.declare(AT, "a", ByHttp(url=address), "A.", SCHEMA) == ToolSpec("a", SCHEMA, "A.")
    assert await toolbox.declare(AT, "a", None) == ToolSpec("a")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (ByHttp(url="http://127.0.0.1:9/"), "tools[2].execute.url: http://127.0.0.1:9 is not among the hosts"),
        (ByMcp(server="there"), "tools[2].execute.server: there is no MCP server 'there'"),
        (ByMcp(server=McpUrl(url="http://a.example/")), "tools[2].execute.server: http://a.example:80 is not among"),
        (ByMcp(server="here"), "tools[2].execute.tool: the server has no tool 'sky'; it has: weather, greet, count,"),
        (ByMcp(server="here", tool="wether"), "the server has no tool 'wether'; it has: weather"),
    ],
)
async def test_what_cannot_be_executed_is_refused_when_it_is_declared(
    served: tuple[ToolExecutors, str], how: ByHttp | ByMcp, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await served[0].declare(AT, "sky", how, "The sky.", SCHEMA)

    assert said in str(refused.value)
