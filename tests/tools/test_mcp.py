"""Tools of MCP servers, before real servers made with the official package, on stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import Event
from forge_proxy.tools.config import ByMcp, McpConfig, McpServerConfig, McpUrl
from forge_proxy.tools.errors import NotAllowed, ToolServerUnusable
from forge_proxy.tools.mcp.servers import McpServers
from tests.fakes.processes import Process, children, closed_port, has_ended, until

PROGRAM = "tests.fakes.mcp_server"


def ignore(_: Event) -> None:
    """Nobody watches."""


def program(kind: str = "stdio", **options: Any) -> McpServerConfig:
    env = {"PYTHONPATH": SecretStr(os.pathsep.join(sys.path)), **options.pop("env", {})}
    return McpServerConfig(command=sys.executable, args=("-m", PROGRAM, kind), env=env, **options)


@contextmanager
def http_server(kind: str = "http", port: int = 0) -> Generator[Process]:
    """The program over HTTP, listening. Its `url` is the endpoint."""
    process = Process(PROGRAM, kind, str(port), forked=True)
    try:
        process.url = f"http://127.0.0.1:{process.wait_for('listening')['port']}/mcp"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def called(servers: McpServers, tool: str, timeout_seconds: float | None = None, **args: Any) -> ToolOutcome:
    how = ByMcp(server="here", timeout_seconds=timeout_seconds)
    return await servers.execute(how, ToolCall.of(tool, args), "run-1/0/0")


@pytest.fixture(params=["stdio", "http", "legacy"])
async def servers(request: pytest.FixtureRequest) -> AsyncGenerator[McpServers]:
    """One server called `here`, in each way that there is."""
    if request.param == "stdio":
        async with McpServers(McpConfig(servers={"here": program()}), ignore) as found:
            yield found
        return
    with http_server(request.param) as process:
        config = McpServerConfig(url=process.url, headers={"Authorization": SecretStr("Bearer x")})
        async with McpServers(McpConfig(servers={"here": config}), ignore) as found:
            yield found


async def test_a_tool_is_called_and_its_text_is_the_result(servers: McpServers) -> None:
    assert (await called(servers, "greet", name="Ann")).text == "Hello Ann"


async def test_a_structured_result_is_the_value_of_the_outcome(servers: McpServers) -> None:
    outcome = await called(servers, "weather", city="Oslo")

    assert outcome.value == {"city": "Oslo", "degrees": 3}
    assert re.sub(r"\s", "", outcome.text) == '{"city":"Oslo","degrees":3}'


async def test_what_is_no_text_is_named(servers: McpServers) -> None:
    assert (await called(servers, "picture")).text == "look:\n[image: image/png, not shown]"


@pytest.mark.parametrize(
    ("tool", "args", "said"),
    [
        ("fail", {}, "[ToolError] Error executing tool fail"),
        ("nothing", {}, "[ToolError] Unknown tool: nothing"),
        ("greet", {}, "[ToolError] Error executing tool greet: 1 validation error"),
    ],
)
async def test_an_error_is_told_to_the_model(servers: McpServers, tool: str, args: dict[str, Any], said: str) -> None:
    outcome = await called(servers, tool, **args)

    assert outcome.status == "error"
    assert outcome.text.startswith(said)


async def test_the_key_comes_along(servers: McpServers) -> None:
    assert (await called(servers, "told")).value["key"] == "run-1/0/0"


async def test_a_tool_out_of_time_is_stopped_and_the_next_one_called(servers: McpServers) -> None:
    outcome = await called(servers, "wait", timeout_seconds=0.2)

    assert outcome == ToolOutcome.failed("the tool's server failed: no answer within 0.2 s")
    await until_told(servers, "stops")


async def test_a_tool_whose_run_is_cancelled_is_stopped(servers: McpServers) -> None:
    calling = asyncio.create_task(called(servers, "wait"))
    await until_told(servers, "begins")

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    await until_told(servers, "stops")


async def until_told(servers: McpServers, what: str) -> None:
    """Ask again and again, with a bound, until the server says that this has happened to `wait`."""
    async with asyncio.timeout(30):
        while (await called(servers, what)).value != {"result": ["wait"]}:
            pass


async def test_its_tools_are_listed_with_their_schemas(servers: McpServers) -> None:
    listed = {tool.name: tool for tool in await servers.list_tools("here")}

    assert listed["weather"].description == "The weather in a city."
    assert isinstance(listed["weather"].parameters, dict)
    assert listed["weather"].parameters["required"] == ["city"]


async def test_a_program_that_was_killed_is_started_anew_for_the_next_call() -> None:
    async with McpServers(McpConfig(servers={"here": program(), "there": program()}), ignore) as servers:
        pid, _ = (await called(servers, "pids")).value["result"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: has_ended(pid) and PROGRAM not in running(), "the server ends")
        await servers.list_tools("there")  # what there was to be heard of the other one has been heard by then

        again, _ = (await called(servers, "pids")).value["result"]

    assert again != pid


def running() -> str:
    """The command lines of our children."""
    return " ".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in children(os.getpid()) if not has_ended(pid))


async def test_a_call_in_which_the_server_ended_is_not_sent_again() -> None:
    async with McpServers(McpConfig(servers={"here": program()}), ignore) as servers:
        outcome = await called(servers, "end")
        after = await called(servers, "greet", name="Ann")

    assert outcome == ToolOutcome.failed("the MCP server here cannot be used: it ended")
    assert after.text == "Hello Ann"


@pytest.mark.parametrize("kind", ["http", "legacy"])
async def test_an_http_server_that_was_started_anew_is_used_again(kind: str) -> None:
    with closed_port() as port:
        pass
    config = McpConfig(servers={"here": McpServerConfig(url=f"http://127.0.0.1:{port}/mcp")})
    async with McpServers(config, ignore) as servers:
        with http_server(kind, port):
            before = await called(servers, "greet", name="Ann")
        down = await called(servers, "greet", name="Ann")
        with http_server(kind, port):
            after = await called(servers, "greet", name="Ann")

    assert before == after == ToolOutcome("Hello Ann", value={"result": "Hello Ann"})
    assert down.text.startswith("[ToolError] the MCP server here cannot be used: ")


async def test_an_http_server_that_has_forgotten_the_session_is_greeted_again() -> None:
    with closed_port() as port:
        pass
    config = McpConfig(servers={"here": McpServerConfig(url=f"http://127.0.0.1:{port}/mcp")})
    async with McpServers(config, ignore) as servers:
        with http_server("legacy", port):
            await called(servers, "greet", name="Ann")
        with http_server("legacy", port):
            assert (await called(servers, "greet", name="Ann")).text == "Hello Ann"


async def test_calls_at_the_same_time_share_one_program() -> None:
    async with McpServers(McpConfig(servers={"here": program()}), ignore) as servers:
        came = await asyncio.gather(*(called(servers, "pids") for _ in range(5)))

    assert len({outcome.value["result"][0] for outcome in came}) == 1


async def test_headers_of_the_settings_are_sent() -> None:
    with http_server() as process:
        config = McpServerConfig(url=process.url, headers={"Authorization": SecretStr("Bearer x")})
        async with McpServers(McpConfig(servers={"here": config}), ignore) as servers:
            assert (await called(servers, "told")).value["authorization"] == "Bearer x"


async def test_a_program_has_its_own_environment_and_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_BACKEND__API_KEY", "secret")
    config = program(env={"COLOUR": SecretStr("blue")}, cwd=tmp_path)
    async with McpServers(McpConfig(servers={"here": config}), ignore) as servers:
        value = (await called(servers, "environment")).value

    assert (value["COLOUR"], value["cwd"]) == ("blue", str(tmp_path))
    assert "FORGE_PROXY_BACKEND__API_KEY" not in value


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (McpServerConfig(command="no-such-program"), "no-such-program cannot be started: No such file or directory"),
        (McpServerConfig(command="sh", args=("-c", "echo no licence >&2; exit 1")), "it ended: no licence"),
        (McpServerConfig(command="sleep", args=("1000",)), "it did not answer within 0.3 s"),
        (McpServerConfig(url="http://127.0.0.1:9/mcp"), "there is no connection to it"),
    ],
)
async def test_a_server_that_cannot_be_used_is_an_error_that_says_why(config: McpServerConfig, why: str) -> None:
    async with McpServers(McpConfig(servers={"here": config}, connect_seconds=0.3), ignore) as servers:
        with pytest.raises(ToolServerUnusable, match=re.escape(why)):
            await servers.list_tools("here")
        assert why in (await called(servers, "greet", name="Ann")).text


async def test_a_server_that_is_neither_named_nor_listed_is_refused() -> None:
    with http_server() as process:
        origin = process.url.removesuffix("/mcp")
        async with McpServers(McpConfig(servers={"here": program()}, allow=(origin,)), ignore) as servers:
            assert "greet" in [tool.name for tool in await servers.list_tools(McpUrl(url=process.url))]
            with pytest.raises(NotAllowed, match=r"name one of tools.mcp.servers, which has here"):
                await servers.list_tools("there")
            with pytest.raises(NotAllowed, match=r"add it to tools.mcp.allow"):
                await servers.list_tools(McpUrl(url="http://127.0.0.1:9/mcp"))


@pytest.mark.parametrize("kind", ["stdio", "stubborn"])
async def test_nothing_of_a_program_is_left_when_the_context_is(kind: str) -> None:
    async with McpServers(McpConfig(servers={"here": program(kind)}), ignore) as servers:
        pids = (await called(servers, "pids")).value["result"]

    until(lambda: all(has_ended(pid) for pid in pids), "all have ended")


@pytest.mark.parametrize("kind", ["stdio", "stubborn"])
def test_nothing_of_a_program_is_left_when_its_owner_is_killed(kind: str) -> None:
    owner = Process("tests.fakes.mcp_owner", PROGRAM, "pids", kind)
    pids = owner.wait_for("started")["pids"]

    owner.send_signal(signal.SIGKILL)

    owner.wait()
    until(lambda: all(has_ended(pid) for pid in pids), "all have ended")


def test_the_package_is_not_imported_before_a_server_is_used() -> None:
    program = "import sys, forge_proxy.daemon.container, forge_proxy.tools.executors; print('mcp' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


async def test_of_servers_that_only_workflows_name_no_more_than_a_few_are_kept() -> None:
    with http_server() as process:
        origin = process.url.removesuffix("/mcp")
        async with McpServers(McpConfig(allow=(origin,)), ignore) as servers:
            for number in range(20):
                await servers.list_tools(McpUrl(url=f"{process.url}?{number}"))

            assert sum(task.get_name().startswith("mcp ") for task in asyncio.all_tasks()) == 16
