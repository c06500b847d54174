"""What the machine has, as a value. `hardware/` finds it out; budgets and the admin API read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Gpu:
    """One graphics card. Sizes are in MiB; `vram_mb` is all it has, which does not change with what runs on it."""

    name: str
    vram_mb: int | None = None
    free_mb: int | None = None


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """The machine as found. `because` says where the figures come from, and what could not be found out and why."""

    source: Literal["nvidia-smi", "nvml", "amd", "apple", "none"]
    gpus: tuple[Gpu, ...]
    ram_mb: int | None
    cores: int
    because: str

    @property
    def vram_mb(self) -> int | None:
        """VRAM of all cards together, which is what a model is spread over; None where no card tells."""
        told = [gpu.vram_mb for gpu in self.gpus if gpu.vram_mb is not None]
        return sum(told) if told else None
