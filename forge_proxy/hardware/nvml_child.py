"""Prints the cards of NVML in the format of `nvidia-smi`. Runs as `python -m`, because a driver may hang."""

from __future__ import annotations

import importlib
import sys
from typing import Any

_MIB = 1024 * 1024


def main() -> None:
    """Print `name, total, free` for each card. Exits with a message and code 1 if NVML fails."""
    nvml: Any = importlib.import_module("pynvml")  # optional and untyped
    try:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            name = nvml.nvmlDeviceGetName(card)
            try:
                memory = nvml.nvmlDeviceGetMemoryInfo(card)
                sizes = f"{memory.total // _MIB}, {memory.free // _MIB}"
            except nvml.NVMLError:  # chips that share the machine's RAM do not report it
                sizes = "[N/A], [N/A]"
            sys.stdout.write(f"{name if isinstance(name, str) else name.decode()}, {sizes}\n")
    except nvml.NVMLError as fault:
        sys.exit(str(fault))


if __name__ == "__main__":
    main()
