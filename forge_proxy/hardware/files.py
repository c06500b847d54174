"""Reads AMD cards and memory limits from sysfs. Blocking; the files are small."""

from __future__ import annotations

import os
from pathlib import Path

from forge_proxy.core.hardware import Gpu

_MIB = 1024 * 1024
_AMD = "0x1002"


def find_amd_cards(root: Path) -> tuple[Gpu, ...]:
    """Return the AMD cards that the amdgpu driver lists in sysfs. `root` is `/`, except in tests."""
    cards: list[Gpu] = []
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*")):
        device = card / "device"
        if card.name[4:].isdigit() and _read(device / "vendor") == _AMD:
            total, used = _size(device / "mem_info_vram_total"), _size(device / "mem_info_vram_used")
            free = total - used if total is not None and used is not None else None
            cards.append(Gpu(_read(device / "product_name") or "AMD graphics", total, free))
    return tuple(cards)


def find_ram_mb(root: Path) -> int | None:
    """Return the RAM in MiB that this process may use: the machine's, or the container's limit if lower."""
    try:
        own = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB
    except (ValueError, OSError):
        own = None
    limit = _size(root / "sys/fs/cgroup/memory.max")
    sizes = [size for size in (own, limit) if size is not None]
    return min(sizes) if sizes else None


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS lacks it
        return os.cpu_count() or 1


def _size(file: Path) -> int | None:
    text = _read(file)
    return int(text) // _MIB if text and text.isascii() and text.isdigit() else None


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
