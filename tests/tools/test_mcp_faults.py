"""MCP servers that hang, exceed output limits or send invalid data: the next call finds one that works."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from forge_proxy.core.messages import ToolCall
from forge_proxy.core.workflow.run import ToolOutcome
from forge_proxy.engine.events import Event
from forge_proxy.tools.config import McpConfig, McpServerConfig
from forge_proxy.tools.mcp.executor import McpExecution, McpExecutor
from forge_proxy.tools.mcp.output_limits import NotificationLimit, TooMuchOutput, check_values
from tests.fakes.processes import Process, has_ended, until

PROGRAM = "tests.fakes.hostile_mcp_server"
LIMIT_KB = 256
CHECK_SECONDS = 0.5


def ignore(_: Event) -> None:
    """Discard the event."""


@asynccontextmanager
async def two_programs(limit_kb: int = LIMIT_KB) -> AsyncGenerator[McpExecutor]:
    """Start two programs, `here` and `there`."""
    env = {"PYTHONPATH": SecretStr(os.pathsep.join(sys.path))}
    program = McpServerConfig(command=sys.executable, args=("-m", PROGRAM), env=env)
    config = McpConfig(servers={"here": program, "there": program}, max_message_kb=limit_kb)
    async with McpExecutor(config, ignore, CHECK_SECONDS) as servers:
        yield servers


async def call_tool(servers: McpExecutor, tool: str, server: str = "here", seconds: float = 60) -> ToolOutcome:
    execution = McpExecution(server=server, timeout_seconds=seconds)
    return await servers.execute(execution, ToolCall.of(tool, {}), "run-1/0/0", "run-1")


async def test_an_unresponsive_program_is_killed_and_the_next_call_restarts_it() -> None:
    async with two_programs() as servers:
        before = int((await call_tool(servers, "pid")).text)
        outcome = await call_tool(servers, "hang", seconds=0.2)

        after = int((await call_tool(servers, "pid")).text)

        assert outcome == ToolOutcome.failed("the tool's server failed: no response within 0.2 s")
        assert after != before
        until(lambda: has_ended(before), "the program that hangs ends")


async def test_a_suspended_program_is_restarted() -> None:
    async with two_programs() as servers:
        before = int((await call_tool(servers, "pid")).text)
        os.kill(before, signal.SIGSTOP)
        await call_tool(servers, "garbage", seconds=0.2)

        assert int((await call_tool(servers, "pid")).text) != before
        until(lambda: has_ended(before), "the program that was stopped ends")


async def test_pending_calls_of_a_killed_program_fail_with_the_reason() -> None:
    async with two_programs() as servers:
        await call_tool(servers, "pid")
        waiting = asyncio.create_task(call_tool(servers, "hang"))
        await asyncio.sleep(0)
        await call_tool(servers, "pid", seconds=0.2)

        outcome = await waiting

    assert outcome.text.startswith("[ToolError] the MCP server here cannot be used: it sent no response within 0.5 s")


async def test_an_unresponsive_program_does_not_delay_another() -> None:
    async with two_programs() as servers:
        await asyncio.gather(call_tool(servers, "pid"), call_tool(servers, "pid", "there"))
        hanging = asyncio.create_task(call_tool(servers, "hang"))

        outcomes = [await call_tool(servers, "pid", "there") for _ in range(20)]

        assert {outcome.status for outcome in outcomes} == {"ok"}
        assert not hanging.done()
        hanging.cancel()


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("endless_line", "it sent a message of more than 256 KB"),
        ("hundred_megabytes", "it sent a message of more than 256 KB"),
        ("endless_lines", "it sent more than 256 KB of unrequested data within a minute"),
        ("endless_notifications", "it sent more than 256 KB of unrequested data within a minute"),
        ("endless_strange_responses", "it sent more than 256 KB of unrequested data within a minute"),
    ],
)
async def test_a_program_that_exceeds_an_output_limit_is_restarted(tool: str, why: str) -> None:
    async with two_programs() as servers:
        before = int((await call_tool(servers, "pid")).text)
        await call_tool(servers, "pid", "there")
        tracemalloc.start()
        flooding = asyncio.create_task(call_tool(servers, tool))

        healthy = [await call_tool(servers, "pid", "there") for _ in range(20)]
        outcome = await flooding
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert outcome.text.startswith(f"[ToolError] the MCP server here cannot be used: {why}")
        assert {one.status for one in healthy} == {"ok"}
        assert peak < 8 * 1024 * LIMIT_KB
        assert int((await call_tool(servers, "pid")).text) != before
        until(lambda: has_ended(before), "the program that floods ends")


@pytest.mark.parametrize("tool", ["deep", "invalid_utf8", "not_a_number", "half_character"])
async def test_an_invalid_result_is_an_error_of_that_call_only(tool: str) -> None:
    async with two_programs() as servers:
        before = (await call_tool(servers, "pid")).text

        outcome = await call_tool(servers, tool)

        assert outcome.text == "[ToolError] the server's response is not valid JSON, or nested too deeply"
        assert (await call_tool(servers, "pid")).text == before


async def test_output_that_is_not_a_message_is_skipped() -> None:
    async with two_programs() as servers:
        assert (await call_tool(servers, "garbage")).text == "after garbage"


def test_a_large_text_is_within_the_limits() -> None:
    check_values(b'{"a":"' + b'x,[{\\"' * 200_000 + b'"}')


@pytest.mark.parametrize("text", [b"[" + b"[]," * 200_000 + b"0]", b'["",' * 120_000])
def test_a_message_with_too_many_values_is_refused(text: bytes) -> None:
    with pytest.raises(TooMuchOutput, match="more than 100,000 values"):
        check_values(text)


def test_notifications_are_limited_per_minute() -> None:
    allowance = NotificationLimit(6000)

    for second in range(1000):
        allowance.spend(100, float(second))

    with pytest.raises(TooMuchOutput):
        allowance.spend(6001, 1000.0)


async def test_a_daemonized_process_ends_with_its_program() -> None:
    async with two_programs() as servers:
        outcome = await call_tool(servers, "daemonize")
        pid = int(outcome.text)
        assert not has_ended(pid)
        assert os.getsid(pid) == os.getpgid(pid) != os.getsid(0)

    until(lambda: has_ended(pid), "the daemonized process ends")


async def test_a_daemonized_process_ends_when_its_program_is_restarted() -> None:
    async with two_programs() as servers:
        pid = int((await call_tool(servers, "daemonize")).text)
        await call_tool(servers, "hang", seconds=0.2)
        await call_tool(servers, "pid")

        until(lambda: has_ended(pid), "the daemonized process ends")


def test_a_daemonized_process_ends_when_the_daemon_is_killed() -> None:
    owner = Process("tests.fakes.mcp_owner", PROGRAM, "daemonize", forked=True)
    (pid,) = owner.wait_for("started")["pids"]
    assert not has_ended(pid)

    owner.send_signal(signal.SIGKILL)

    owner.wait()
    until(lambda: has_ended(pid), "the daemonized process ends")
