"""The hardware of the machine, as a value. `hardware/` detects it; budgets and the admin API read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Gpu:
    """One graphics card. Sizes are in MiB; `vram_mb` is the total, used or not."""

    name: str
    vram_mb: int | None = None
    free_mb: int | None = None


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """The detected hardware. `because` states the source of the figures and why others could not be determined."""

    source: Literal["nvidia-smi", "nvml", "amd", "apple", "none"]
    gpus: tuple[Gpu, ...]
    ram_mb: int | None
    cores: int
    because: str

    @property
    def vram_mb(self) -> int | None:
        """Total VRAM of all cards, over which a model is split; None if no card reports it."""
        sizes = [gpu.vram_mb for gpu in self.gpus if gpu.vram_mb is not None]
        return sum(sizes) if sizes else None
