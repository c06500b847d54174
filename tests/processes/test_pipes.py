"""Programs that end before they are written to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from forge_proxy.processes.pipes import write_to_pipe

_LONG = b"x" * 1_000_000


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_writing_to_a_program_that_has_ended_raises_the_same_error_on_both_loops(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def write(pipe: asyncio.StreamWriter) -> None:
        """Write often: asyncio may lose what is written before it has noticed the end."""
        for _ in range(10):
            await write_to_pipe(pipe, _LONG)

    async def write_too_late() -> None:
        process = await asyncio.create_subprocess_exec("/bin/true", stdin=asyncio.subprocess.PIPE)
        assert process.stdin is not None
        await process.wait()
        with pytest.raises(BrokenPipeError):
            await write(process.stdin)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(write_too_late())
