"""Each kind of executor validates, declares and executes its tools; the registry finds it by `execute.by`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from forge_proxy.backends.aiohttp_client import AioHttp
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.tools.config import CallbackConfig, McpConfig, ToolSettings
from forge_proxy.tools.executors import open_registry
from forge_proxy.tools.local import ClientExecutor, EchoExecutor
from forge_proxy.tools.ports import SystemClock
from forge_proxy.workflows.tool_registry import (
    ToolDeclaration,
    ToolExecutor,
    ToolRegistry,
    parse_definition,
    spec_with_parameters,
)
from tests.tools.test_callbacks import ToolServer, json_response
from tests.tools.test_mcp import ignore, program

AT = "tools[2]"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


@pytest.fixture
async def served() -> AsyncGenerator[tuple[ToolRegistry, str]]:
    """A registry of all kinds, with an HTTP server (its address second) and an MCP server called `here`."""
    http = AioHttp(connect_seconds=5, silence_seconds=60)
    async with ToolServer(json_response({"output": "by http"})).served() as address:
        settings = ToolSettings(
            callbacks=CallbackConfig(allow=(address,), secret=SecretStr("a secret of the tests")),
            mcp=McpConfig(servers={"here": program()}),
        )
        async with open_registry(settings, http, SystemClock(), ignore) as registry:
            yield registry, address
    await http.close()


async def test_each_tool_is_executed_by_the_executor_of_its_kind(served: tuple[ToolRegistry, str]) -> None:
    registry, address = served
    tools = registry.bind(
        {
            "ask": {"by": "http", "url": address},
            "welcome": {"by": "mcp", "server": "here", "tool": "greet"},
            "finish": {"by": "arguments"},
            "approve": {"by": "client"},
        },
        "run-1",
    )

    assert await tools.execute(ToolCall("ask"), "k1") == ToolOutcome("by http", value="by http")
    welcomed = await tools.execute(ToolCall.of("welcome", {"name": "Ann"}), "k2")
    assert welcomed is not None
    assert welcomed.text == "Hello Ann"
    echoed = ToolOutcome('{"answer":7}', value={"answer": 7})
    assert await tools.execute(ToolCall.of("finish", {"answer": 7}), "k3") == echoed
    assert await tools.execute(ToolCall("approve"), "k4") is None
    external = {name: tools.is_external(name) for name in ("ask", "welcome", "finish", "approve")}
    assert external == {"ask": True, "welcome": True, "finish": False, "approve": False}


async def test_the_mcp_server_provides_what_a_declaration_omits(served: tuple[ToolRegistry, str]) -> None:
    registry, _ = served
    execute = {"by": "mcp", "server": "here", "tool": "weather"}

    provided = await registry.declare(ToolDeclaration("sky", execute), AT)
    declared = await registry.declare(ToolDeclaration("sky", execute, "The weather outside.", SCHEMA), AT)

    assert (provided.name, provided.description) == ("sky", "The weather in a city.")
    assert isinstance(provided.parameters, dict)
    assert provided.parameters["required"] == ["city"]
    assert declared == ToolSpec("sky", SCHEMA, "The weather outside.")


@pytest.mark.parametrize("execute", [{"by": "client"}, {"by": "arguments"}, {"by": "http"}])
async def test_other_executors_require_parameters(served: tuple[ToolRegistry, str], execute: dict[str, str]) -> None:
    registry, address = served
    execute = {**execute, "url": address} if execute["by"] == "http" else execute

    with pytest.raises(InvalidRequest, match=r"tools\[2\]\.parameters: required: a JSON Schema"):
        await registry.declare(ToolDeclaration("a", execute), AT)

    assert await registry.declare(ToolDeclaration("a", execute, "A.", SCHEMA), AT) == ToolSpec("a", SCHEMA, "A.")


@pytest.mark.parametrize(
    ("execute", "message"),
    [
        ({}, "tools[2].execute.by: expected one of client, arguments, http, mcp"),
        ({"by": "shell", "command": "rm"}, "tools[2].execute.by: expected one of client, arguments, http, mcp"),
        ({"by": ["http"]}, "tools[2].execute.by: expected one of client, arguments, http, mcp"),
        ({"by": "client", "url": "http://a"}, "tools[2].execute.url: unknown field for execute.by client"),
        ({"by": "arguments", "a": 1}, "tools[2].execute.a: unknown field for execute.by arguments"),
        ({"by": "http"}, "tools[2].execute.url: required, but missing"),
        ({"by": "http", "url": "file:///etc/passwd"}, "tools[2].execute.url: expected a URL such as"),
        ({"by": "http", "url": "http://a", "retries": 11}, "tools[2].execute.retries: expected at most 10"),
        ({"by": "http", "url": "http://a", "command": "rm"}, "tools[2].execute.command: no such field"),
        ({"by": "http", "url": "http://127.0.0.1:9/"}, "tools[2].execute.url: http://127.0.0.1:9 is not among the"),
        ({"by": "mcp"}, "tools[2].execute.server: required, but missing"),
        ({"by": "mcp", "server": {"command": "rm"}}, "tools[2].execute.server.url: required, but missing"),
        ({"by": "mcp", "server": "there"}, "tools[2].execute.server: there is no MCP server 'there'"),
        ({"by": "mcp", "server": {"url": "http://a.example/"}}, "tools[2].execute.server: http://a.example:80 is not"),
        (
            {"by": "mcp", "server": "here"},
            "tools[2].execute.tool: the server has no tool 'sky'; it has: weather, greet",
        ),
        ({"by": "mcp", "server": "here", "tool": "wether"}, "the server has no tool 'wether'; it has: weather"),
    ],
)
async def test_an_invalid_declaration_is_refused_with_the_path_of_the_field(
    served: tuple[ToolRegistry, str], execute: dict[str, Any], message: str
) -> None:
    registry, _ = served

    with pytest.raises(InvalidRequest) as refused:
        await registry.declare(ToolDeclaration("sky", execute, "The sky.", SCHEMA), AT)

    assert message in str(refused.value)


async def test_a_stored_definition_that_became_invalid_is_refused_with_the_tool(
    served: tuple[ToolRegistry, str],
) -> None:
    with pytest.raises(InvalidRequest, match=r"workflow\.tools\.ask\.execute\.by: expected one of"):
        served[0].bind({"ask": {"by": "removed"}}, "run-1")


class DiceExecution(BaseModel):
    """Definition of a made-up fifth kind."""

    model_config = ConfigDict(extra="forbid")

    by: Literal["dice"] = "dice"
    sides: int


class DiceExecutor:
    """A fifth kind: all that it takes is this class and its place in the registry."""

    kind = "dice"
    is_external = True

    def parse(self, execute: JsonObject, at: str) -> DiceExecution:
        return parse_definition(DiceExecution, execute, at)

    async def declare(self, tool: ToolDeclaration, definition: DiceExecution, at: str) -> ToolSpec:
        return spec_with_parameters(tool, at)

    async def execute(self, definition: DiceExecution, call: ToolCall, key: str, run_id: str) -> ToolOutcome:
        return ToolOutcome(f"{run_id} rolled {definition.sides}")


async def test_a_fifth_kind_is_one_class_and_its_place_in_the_registry() -> None:
    dice: ToolExecutor[DiceExecution] = DiceExecutor()
    registry = ToolRegistry(ClientExecutor(), EchoExecutor(), dice)

    spec = await registry.declare(ToolDeclaration("roll", {"by": "dice", "sides": 6}, "Roll.", SCHEMA), AT)
    tools = registry.bind({"roll": {"by": "dice", "sides": 6}}, "run-1")

    assert spec == ToolSpec("roll", SCHEMA, "Roll.")
    assert await tools.execute(ToolCall("roll"), "k") == ToolOutcome("run-1 rolled 6")
    with pytest.raises(InvalidRequest, match=r"tools\[2\]\.execute\.sides: required, but missing"):
        await registry.declare(ToolDeclaration("roll", {"by": "dice"}, "Roll.", SCHEMA), AT)
    with pytest.raises(InvalidRequest, match="expected one of client, arguments, dice"):
        await registry.declare(ToolDeclaration("roll", {"by": "http"}, "Roll.", SCHEMA), AT)
