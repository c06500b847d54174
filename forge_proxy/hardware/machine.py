"""Runs the hardware probes once, one after another, off the event loop and with a time limit."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from forge_proxy.core.hardware import Gpu, HardwareProfile
from forge_proxy.hardware.files import count_cores, find_amd_cards, find_ram_mb
from forge_proxy.hardware.nvidia import ProbeFailed, ask_nvidia_smi, ask_nvml

_SECONDS = 10.0
"""Time limit of each probe. The first nvidia-smi after a boot takes several seconds while the driver initializes."""
_FOR_METAL = 0.75
"""Default share of an Apple machine's memory that its GPU may use."""

_NVIDIA: tuple[tuple[Literal["nvidia-smi", "nvml"], Callable[[int | None, float], Awaitable[tuple[Gpu, ...]]]], ...] = (
    ("nvidia-smi", ask_nvidia_smi),
    ("nvml", ask_nvml),
)


class MachineHardware:
    """`HardwareSource` of the local machine."""

    def __init__(self, root: Path = Path("/"), system: str | None = None, seconds: float = _SECONDS) -> None:
        self._root = root
        self._system = system or f"{platform.system()} {platform.machine()}"
        self._seconds = seconds
        self._finding: asyncio.Task[HardwareProfile] | None = None

    async def profile(self) -> HardwareProfile:
        """See `engine.ports.HardwareSource`."""
        if self._finding is None:
            self._finding = asyncio.create_task(self._find())
        return await asyncio.shield(self._finding)

    async def close(self) -> None:
        """Cancel a running detection."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)

    async def _find(self) -> HardwareProfile:
        ram, cores = await asyncio.to_thread(find_ram_mb, self._root), count_cores()
        why: list[str] = []
        for source, ask in _NVIDIA:
            try:
                gpus = await ask(ram, self._seconds)
            except ProbeFailed as exc:
                why.append(str(exc))
            else:
                return HardwareProfile(source, gpus, ram, cores, f"by {source}")
        if amd := await asyncio.to_thread(find_amd_cards, self._root):
            return HardwareProfile("amd", amd, ram, cores, "by the files of AMD's driver")
        if self._system == "Darwin arm64" and ram is not None:
            gpus = (Gpu("Apple", int(ram * _FOR_METAL)),)
            return HardwareProfile("apple", gpus, ram, cores, f"{_FOR_METAL:.0%} of the memory that it shares")
        return HardwareProfile("none", (), ram, cores, f"no graphics card found: {'; '.join(why)}; no AMD card")
