"""NVIDIA cards, as `nvidia-smi` or NVML tell them: both are asked in a process of their own, which can be ended."""

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
"""In the names of chips that use the machine's RAM, and tell no memory of their own."""
_END_SECONDS = 1.0


class ProbeFailed(Exception):
    """A probe has no answer; the message says why."""


async def ask_nvidia_smi(ram_mb: int | None, seconds: float) -> tuple[Gpu, ...]:
    """The cards by `nvidia-smi`. Raises `ProbeFailed`."""
    program = shutil.which("nvidia-smi")
    if program is None:
        raise ProbeFailed("there is no nvidia-smi")
    return read_cards(await _output("nvidia-smi", seconds, program, *_QUERY), ram_mb)


async def ask_nvml(ram_mb: int | None, seconds: float) -> tuple[Gpu, ...]:
    """The cards by NVML, where nvidia-ml-py is installed. Raises `ProbeFailed`."""
    if find_spec("pynvml") is None:
        raise ProbeFailed("nvidia-ml-py is not installed")
    return read_cards(await _output("NVML", seconds, sys.executable, "-m", "forge_proxy.hardware.nvml_child"), ram_mb)


def read_cards(said: str, ram_mb: int | None) -> tuple[Gpu, ...]:
    """The cards in lines of `name, total, free`, sizes in MiB. Raises `ProbeFailed` where there is none."""
    cards: list[Gpu] = []
    for row in csv.reader(said.splitlines(), skipinitialspace=True):
        if len(row) >= 3:
            name, total, free = ", ".join(row[:-2]).strip(), _size(row[-2]), _size(row[-1])
            if total is None and any(chip in name for chip in _SHARING):
                total = ram_mb
            cards.append(Gpu(name, total, free))
    if not cards:
        raise ProbeFailed("it lists no card")
    return tuple(cards)


def _size(said: str) -> int | None:
    """A number of MiB; None for what stands there otherwise, as `[N/A]` and `[Insufficient Permissions]`."""
    word = said.strip()
    return int(word) if word.isascii() and word.isdigit() and int(word) > 0 else None


async def _output(what: str, seconds: float, *words: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as exc:
        raise ProbeFailed(f"{what} cannot be run: {exc.strerror or exc}") from exc
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except TimeoutError as exc:
        raise ProbeFailed(f"{what} said nothing within {seconds:g} s") from exc
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):  # a driver that hangs keeps its process from ending
                async with asyncio.timeout(_END_SECONDS):
                    await process.communicate()
    if process.returncode != 0:
        words_said = " ".join((err or out).decode("utf-8", "replace").split())[:200]
        raise ProbeFailed(f"{what} failed: {words_said or f'exit code {process.returncode}'}")
    return out.decode("utf-8", "replace")
