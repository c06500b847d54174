"""Detects NVIDIA cards with `nvidia-smi` or NVML, each in a separate process that can be killed."""

from __future__ import annotations

import asyncio
import csv
import os
import shutil
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec

from forge_proxy.core.hardware import Gpu

_QUERY = ("--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits")
_SHARING = ("GB10", "Orin", "Thor", "Xavier", "Tegra")
"""Name parts of chips that share the machine's RAM and report no dedicated memory."""
_END_SECONDS = 1.0


class ProbeFailed(Exception):
    """A probe failed. The message contains the reason."""


async def ask_nvidia_smi(ram_mb: int | None, seconds: float) -> tuple[Gpu, ...]:
    """Return the cards that `nvidia-smi` lists. Raises `ProbeFailed`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise ProbeFailed("nvidia-smi not found")
    return read_cards(await _output("nvidia-smi", seconds, program, *_QUERY), ram_mb)


async def ask_nvml(ram_mb: int | None, seconds: float) -> tuple[Gpu, ...]:
    """Return the cards that NVML lists, if nvidia-ml-py is installed. Raises `ProbeFailed`."""
    if find_spec("pynvml") is None:
        raise ProbeFailed("nvidia-ml-py is not installed")
    return read_cards(await _output("NVML", seconds, sys.executable, "-m", "forge_proxy.hardware.nvml_child"), ram_mb)


def read_cards(text: str, ram_mb: int | None) -> tuple[Gpu, ...]:
    """Parse cards from CSV lines of `name, total, free`, sizes in MiB. Raises `ProbeFailed` if there is none."""
    cards: list[Gpu] = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) >= 3:
            name, total, free = ", ".join(row[:-2]).strip(), _size(row[-2]), _size(row[-1])
            if total is None and any(chip in name for chip in _SHARING):
                total = ram_mb
            cards.append(Gpu(name, total, free))
    if not cards:
        raise ProbeFailed("it lists no card")
    return tuple(cards)


def _size(text: str) -> int | None:
    """Parse a size in MiB; None for placeholders such as `[N/A]` and `[Insufficient Permissions]`."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and int(word) > 0 else None


async def _output(source: str, seconds: float, *words: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as exc:
        raise ProbeFailed(f"{source} cannot be run: {exc.strerror or exc}") from exc
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except TimeoutError as exc:
        raise ProbeFailed(f"{source} did not finish within {seconds:g} s") from exc
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):  # a hanging driver can keep its process alive
                async with asyncio.timeout(_END_SECONDS):
                    await process.communicate()
    if process.returncode != 0:
        message = " ".join((err or out).decode("utf-8", "replace").split())[:200]
        raise ProbeFailed(f"{source} failed: {message or f'exit code {process.returncode}'}")
    return out.decode("utf-8", "replace")
