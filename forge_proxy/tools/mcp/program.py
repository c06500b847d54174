"""An MCP server over stdio: started through the reaper, with limited output, stopped with all its descendants."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from forge_proxy.processes.pipes import write_to_pipe
from forge_proxy.processes.supervision import build_reaper_command
from forge_proxy.tools.config import McpServerConfig
from forge_proxy.tools.mcp.incoming import MessageAssembler
from forge_proxy.tools.mcp.output_limits import TooMuchOutput
from forge_proxy.tools.mcp.stderr import StderrTail, open_stderr

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_READ_BYTES = 16 * 1024
"""Bytes that are read and parsed before other tasks run: thousands of lines at most."""
_GRACE_SECONDS = 2.0
"""Grace period for each of the two shutdown steps: closing stdin, then SIGTERM."""
_KILL_SECONDS = 10.0
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class McpProgram:
    """The program of one session. Enter `running` once."""

    def __init__(self, config: McpServerConfig, stderr: StderrTail, limit: int) -> None:
        self._config = config
        self._stderr = stderr
        self._assembler = MessageAssembler(limit)
        self._lifeline = -1
        self._drained = asyncio.Event()
        self.stdout_closed = asyncio.Event()
        """Set when its stdout has ended."""
        self.output_error: TooMuchOutput | None = None
        """The error if it was killed for exceeding an output limit."""

    def kill(self) -> None:
        """Kill the program and all its descendants at once."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[TransportStreams]:
        """Start the program, yield its streams, and stop it at the end of the block. Raises `OSError`."""
        incoming_send, incoming_receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing_send, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
        async with open_stderr(self._stderr) as errors:
            process = await self._start(errors.fileno())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, incoming_send)
                tasks.start_soon(self._write, process, outgoing_receive, incoming_send)
                try:
                    yield incoming_receive, outgoing_send
                finally:
                    with anyio.CancelScope(shield=True):
                        incoming_receive.close()
                        outgoing_send.close()
                        await self._stop(process)
                    tasks.cancel_scope.cancel()

    async def _start(self, errors: int) -> Process:
        watched, self._lifeline = os.pipe()
        try:
            command = build_reaper_command([self._config.command or "", *self._config.args], watched)
            environment = {name: value.get_secret_value() for name, value in self._config.env.items()}
            return await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=errors, pass_fds=(watched,), start_new_session=True,
                env=get_default_environment() | environment, cwd=self._config.cwd,
            )  # fmt: skip
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(watched)

    async def _read(self, process: Process, incoming: ObjectSendStream[SessionMessage | Exception]) -> None:
        assert process.stdout is not None  # noqa: S101  # it is a pipe
        now = asyncio.get_running_loop().time
        with suppress(*_CLOSED):  # session closed: drain the rest below, so that the program can exit
            async with incoming:
                try:
                    while piece := await process.stdout.read(_READ_BYTES):
                        for message in self._assembler.feed(piece, now()):
                            await incoming.send(SessionMessage(message))
                        await asyncio.sleep(0)  # a pipe that is always full would starve other tasks
                except TooMuchOutput as error:
                    self.output_error = error
                    self.kill()
        self.stdout_closed.set()
        while await process.stdout.read(_READ_BYTES):  # noqa: ASYNC110 - it does not wait, it yields to other tasks
            await asyncio.sleep(0)
        self._drained.set()

    async def _write(
        self,
        process: Process,
        outgoing: ObjectReceiveStream[SessionMessage],
        incoming: ObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        try:
            async with outgoing:
                async for sent in outgoing:
                    self._assembler.expect(sent.message)
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await write_to_pipe(process.stdin, text.encode() + b"\n")
        except OSError:  # it closed stdin, so no response will come
            await incoming.aclose()

    async def _stop(self, process: Process) -> None:
        """Ask the program to exit, unless it is being killed; then kill the remaining processes."""
        assert process.stdin is not None  # noqa: S101  # it is a pipe
        process.stdin.close()
        if self._lifeline >= 0 and not await _wait_for_exit(process, _GRACE_SECONDS):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await _wait_for_exit(process, _GRACE_SECONDS)
        self.kill()
        if await _wait_for_exit(process, _KILL_SECONDS):
            with suppress(TimeoutError):
                async with asyncio.timeout(_KILL_SECONDS):
                    await self._drained.wait()  # otherwise its pipe would stay open


async def _wait_for_exit(process: Process, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None
