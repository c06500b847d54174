"""Writes to the input of programs, with the errors of both event loops."""

from __future__ import annotations

import asyncio


async def write_to_pipe(pipe: asyncio.StreamWriter, data: bytes) -> None:
    """Write to the input of a program. Raises `BrokenPipeError` if it is known to have ended or closed its input.

    Once a program has ended, asyncio raises `ConnectionResetError`, or loses the data if it has not noticed yet; uvloop
    raises `RuntimeError`.
    """
    try:
        pipe.write(data)
        await pipe.drain()
    except (ConnectionResetError, RuntimeError) as error:
        raise BrokenPipeError(str(error)) from error
