"""Tools of MCP servers, tested with real servers of the official package, over stdio and HTTP."""

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
import pytest_asyncio
from pydantic import SecretStr

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import Event
from forge_proxy.tools.config import McpConfig, McpServerConfig
from forge_proxy.tools.errors import NotAllowed, ToolServerUnusable
from forge_proxy.tools.mcp.executor import McpExecution, McpExecutor
from forge_proxy.tools.mcp.session_pool import McpUrl
from tests.fakes.processes import Process, children, closed_port, has_ended, until

PROGRAM = "tests.fakes.mcp_server"


def ignore(_: Event) -> None:
    """Discard the event."""


def program(kind: str = "stdio", **options: Any) -> McpServerConfig:
    env = {"PYTHONPATH": SecretStr(os.pathsep.join(sys.path)), **options.pop("env", {})}
    return McpServerConfig(command=sys.executable, args=("-m", PROGRAM, kind), env=env, **options)


@contextmanager
def http_server(kind: str = "http", port: int = 0) -> Generator[Process]:
    """Run the program over HTTP until it listens. Its `url` is the endpoint."""
    process = Process(PROGRAM, kind, str(port), forked=True)
    try:
        process.url = f"http://127.0.0.1:{process.wait_for('listening')['port']}/mcp"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def call_tool(servers: McpExecutor, tool: str, timeout_seconds: float | None = None, **args: Any) -> ToolOutcome:
    execution = McpExecution(server="here", timeout_seconds=timeout_seconds)
    return await servers.execute(execution, ToolCall.of(tool, args), "run-1/0/0", "run-1")


shared_loop = pytest.mark.asyncio(loop_scope="module")
"""For tests that share `servers`, which belong to one event loop."""


@pytest_asyncio.fixture(params=["stdio", "http", "legacy"], scope="module", loop_scope="module")
async def servers(request: pytest.FixtureRequest) -> AsyncGenerator[McpExecutor]:
    """One server called `here`, by each transport."""
    if request.param == "stdio":
        async with McpExecutor(McpConfig(servers={"here": program()}), ignore) as found:
            yield found
        return
    with http_server(request.param) as process:
        config = McpServerConfig(url=process.url, headers={"Authorization": SecretStr("Bearer x")})
        async with McpExecutor(McpConfig(servers={"here": config}), ignore) as found:
            yield found


@shared_loop
async def test_a_tool_is_called_and_its_text_is_the_result(servers: McpExecutor) -> None:
    assert (await call_tool(servers, "greet", name="Ann")).text == "Hello Ann"


@shared_loop
async def test_a_structured_result_is_the_value_of_the_outcome(servers: McpExecutor) -> None:
    outcome = await call_tool(servers, "weather", city="Oslo")

    assert outcome.value == {"city": "Oslo", "degrees": 3}
    assert re.sub(r"\s", "", outcome.text) == '{"city":"Oslo","degrees":3}'


@shared_loop
async def test_content_other_than_text_is_named_in_the_result(servers: McpExecutor) -> None:
    assert (await call_tool(servers, "picture")).text == "look:\n[image: image/png, not shown]"


@shared_loop
@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("fail", {}, "[ToolError] Error executing tool fail"),
        ("nothing", {}, "[ToolError] Unknown tool: nothing"),
        ("greet", {}, "[ToolError] Error executing tool greet: 1 validation error"),
    ],
)
async def test_an_error_reaches_the_model(servers: McpExecutor, tool: str, args: dict[str, Any], message: str) -> None:
    outcome = await call_tool(servers, tool, **args)

    assert outcome.status == "error"
    assert outcome.text.startswith(message)


@shared_loop
async def test_the_idempotency_key_is_sent(servers: McpExecutor) -> None:
    assert (await call_tool(servers, "told")).value["key"] == "run-1/0/0"


@shared_loop
async def test_a_call_that_times_out_is_cancelled_and_the_next_succeeds(servers: McpExecutor) -> None:
    outcome = await call_tool(servers, "wait", timeout_seconds=0.2, call="timed out")

    assert outcome == ToolOutcome.failed("the tool's server failed: no response within 0.2 s")
    await wait_until_recorded(servers, "stops", "timed out")


@shared_loop
async def test_cancelling_the_run_cancels_the_call(servers: McpExecutor) -> None:
    calling = asyncio.create_task(call_tool(servers, "wait", call="cancelled"))
    await wait_until_recorded(servers, "begins", "cancelled")

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    await wait_until_recorded(servers, "stops", "cancelled")


async def wait_until_recorded(servers: McpExecutor, what: str, call: str) -> None:
    """Poll the server until it has recorded that this call of the tool `wait` began or stopped."""
    async with asyncio.timeout(30):
        while call not in (await call_tool(servers, what)).value["result"]:
            pass


@shared_loop
async def test_tools_are_listed_with_their_schemas(servers: McpExecutor) -> None:
    listed = {tool.name: tool for tool in await servers.list_tools("here")}

    assert listed["weather"].description == "The weather in a city."
    assert isinstance(listed["weather"].parameters, dict)
    assert listed["weather"].parameters["required"] == ["city"]


async def test_a_killed_program_is_restarted_for_the_next_call() -> None:
    async with McpExecutor(McpConfig(servers={"here": program(), "there": program()}), ignore) as servers:
        pid, _ = (await call_tool(servers, "pids")).value["result"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: has_ended(pid) and PROGRAM not in child_commands(), "the server ends")
        await servers.list_tools("there")  # by then the end of the other one has been processed

        again, _ = (await call_tool(servers, "pids")).value["result"]

    assert again != pid


def child_commands() -> str:
    """Return the command lines of this process's children."""
    return " ".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in children(os.getpid()) if not has_ended(pid))


async def test_a_call_during_which_the_server_ended_is_not_retried() -> None:
    async with McpExecutor(McpConfig(servers={"here": program()}), ignore) as servers:
        outcome = await call_tool(servers, "end")
        after = await call_tool(servers, "greet", name="Ann")

    assert outcome == ToolOutcome.failed("the MCP server here cannot be used: it ended")
    assert after.text == "Hello Ann"


@pytest.mark.parametrize("kind", ["http", "legacy"])
async def test_a_restarted_http_server_is_used_again(kind: str) -> None:
    with closed_port() as port:
        pass
    config = McpConfig(servers={"here": McpServerConfig(url=f"http://127.0.0.1:{port}/mcp")})
    async with McpExecutor(config, ignore) as servers:
        with http_server(kind, port):
            before = await call_tool(servers, "greet", name="Ann")
        down = await call_tool(servers, "greet", name="Ann")
        with http_server(kind, port):
            after = await call_tool(servers, "greet", name="Ann")

    assert before == after == ToolOutcome("Hello Ann", value={"result": "Hello Ann"})
    assert down.text.startswith("[ToolError] the MCP server here cannot be used: ")


async def test_a_new_session_replaces_one_that_the_http_server_no_longer_knows() -> None:
    with closed_port() as port:
        pass
    config = McpConfig(servers={"here": McpServerConfig(url=f"http://127.0.0.1:{port}/mcp")})
    async with McpExecutor(config, ignore) as servers:
        with http_server("legacy", port):
            await call_tool(servers, "greet", name="Ann")
        with http_server("legacy", port):
            assert (await call_tool(servers, "greet", name="Ann")).text == "Hello Ann"


async def test_concurrent_calls_share_one_program() -> None:
    async with McpExecutor(McpConfig(servers={"here": program()}), ignore) as servers:
        outcomes = await asyncio.gather(*(call_tool(servers, "pids") for _ in range(5)))

    assert len({outcome.value["result"][0] for outcome in outcomes}) == 1


async def test_configured_headers_are_sent() -> None:
    with http_server() as process:
        config = McpServerConfig(url=process.url, headers={"Authorization": SecretStr("Bearer x")})
        async with McpExecutor(McpConfig(servers={"here": config}), ignore) as servers:
            assert (await call_tool(servers, "told")).value["authorization"] == "Bearer x"


async def test_a_program_gets_its_own_environment_and_working_directory(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_PROXY_BACKEND__API_KEY", "secret")
    config = program(env={"COLOUR": SecretStr("blue")}, cwd=tmp_path)
    async with McpExecutor(McpConfig(servers={"here": config}), ignore) as servers:
        value = (await call_tool(servers, "environment")).value

    assert (value["COLOUR"], value["cwd"]) == ("blue", str(tmp_path))
    assert "FORGE_PROXY_BACKEND__API_KEY" not in value


@pytest.mark.parametrize(
    ("config", "seconds", "why"),
    [
        (
            McpServerConfig(command="no-such-program"),
            60,
            "no-such-program cannot be started: No such file",
        ),
        (McpServerConfig(command="sh", args=("-c", "echo no licence >&2; exit 1")), 60, "it ended: no licence"),
        (McpServerConfig(command="sleep", args=("1000",)), 0.3, "it did not respond within 0.3 s"),
        (McpServerConfig(url="http://127.0.0.1:9/mcp"), 60, "there is no connection to it"),
    ],
    ids=["no program", "ends at once", "does not answer", "no connection"],
)
async def test_an_unusable_server_is_an_error_with_the_reason(
    config: McpServerConfig, seconds: float, why: str
) -> None:
    async with McpExecutor(McpConfig(servers={"here": config}, connect_seconds=seconds), ignore) as servers:
        with pytest.raises(ToolServerUnusable, match=re.escape(why)):
            await servers.list_tools("here")
        assert why in (await call_tool(servers, "greet", name="Ann")).text


async def test_a_server_that_is_neither_configured_nor_listed_is_refused() -> None:
    with http_server() as process:
        origin = process.url.removesuffix("/mcp")
        async with McpExecutor(McpConfig(servers={"here": program()}, allow=(origin,)), ignore) as servers:
            assert "greet" in [tool.name for tool in await servers.list_tools(McpUrl(url=process.url))]
            with pytest.raises(NotAllowed, match=r"name one of tools.mcp.servers, which has here"):
                await servers.list_tools("there")
            with pytest.raises(NotAllowed, match=r"add it to tools.mcp.allow"):
                await servers.list_tools(McpUrl(url="http://127.0.0.1:9/mcp"))


@pytest.mark.parametrize("kind", ["stdio", "stubborn"])
async def test_leaving_the_context_ends_all_processes_of_a_program(kind: str) -> None:
    async with McpExecutor(McpConfig(servers={"here": program(kind)}), ignore) as servers:
        pids = (await call_tool(servers, "pids")).value["result"]

    until(lambda: all(has_ended(pid) for pid in pids), "all have ended")


@pytest.mark.parametrize("kind", ["stdio", "stubborn"])
def test_killing_the_daemon_ends_all_processes_of_a_program(kind: str) -> None:
    owner = Process("tests.fakes.mcp_owner", PROGRAM, "pids", kind, forked=True)
    pids = owner.wait_for("started")["pids"]

    owner.send_signal(signal.SIGKILL)

    owner.wait()
    until(lambda: all(has_ended(pid) for pid in pids), "all have ended")


def test_the_mcp_package_is_not_imported_before_first_use() -> None:
    program = "import sys, forge_proxy.daemon.container, forge_proxy.tools.executors; print('mcp' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


async def test_the_number_of_sessions_with_unconfigured_servers_is_limited() -> None:
    with http_server() as process:
        origin = process.url.removesuffix("/mcp")
        async with McpExecutor(McpConfig(allow=(origin,)), ignore) as servers:
            for number in range(20):
                await servers.list_tools(McpUrl(url=f"{process.url}?{number}"))

            assert sum(task.get_name().startswith("mcp ") for task in asyncio.all_tasks()) == 16
