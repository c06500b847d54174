"""The probes, before fake programs and file trees: what they read; nothing there makes them raise or hang."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forge_proxy.core.hardware import Gpu
from forge_proxy.hardware.machine import MachineHardware
from forge_proxy.hardware.nvidia import ProbeFailed, read_cards
from tests.fakes.processes import ROOT

GB = 1024 * 1024 * 1024


def program(folder: Path, script: str) -> None:
    """An `nvidia-smi` that does this."""
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def amd_card(root: Path, name: str, vendor: str = "0x1002", **files: str) -> None:
    device = root / "sys/class/drm" / name / "device"
    device.mkdir(parents=True)
    for file, text in {"vendor": vendor, **files}.items():
        (device / file).write_text(text + "\n")


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of this test's own, and no NVML."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def machine(root: Path, system: str = "Linux x86_64") -> MachineHardware:
    return MachineHardware(root, system, seconds=2.0)


async def test_nvidia_smi_tells_every_card(bare: Path) -> None:
    program(bare, "echo 'NVIDIA GeForce RTX 4090, 24564, 23000'; echo 'NVIDIA H200, 143771, 143167'")

    found = await machine(bare).profile()

    assert found.source == "nvidia-smi"
    assert found.gpus == (Gpu("NVIDIA GeForce RTX 4090", 24_564, 23_000), Gpu("NVIDIA H200", 143_771, 143_167))
    assert found.vram_mb == 24_564 + 143_771
    assert found.cores >= 1
    assert found.ram_mb


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'NVIDIA-SMI has failed because it could not communicate with the driver.' >&2; exit 9", "communicate"),
        ("exit 6", "exit code 6"),
        ("true", "lists no card"),
        ("echo nonsense", "lists no card"),
        ("while :; do :; done", "did not finish within 2 s"),
    ],
)
async def test_an_nvidia_smi_that_fails_or_hangs_is_reported_and_not_an_error(
    bare: Path, script: str, why: str
) -> None:
    program(bare, script)

    found = await machine(bare).profile()

    assert (found.source, found.gpus, found.vram_mb) == ("none", (), None)
    assert why in found.reason


async def test_a_program_that_cannot_be_run_is_no_error(bare: Path) -> None:
    file = bare / "nvidia-smi"
    file.write_bytes(b"\x7fELF of another machine")
    file.chmod(0o755)

    assert "cannot be run" in (await machine(bare).profile()).reason


@pytest.mark.parametrize(
    ("said", "gpu"),
    [
        ("NVIDIA GB10, [N/A], [N/A]", Gpu("NVIDIA GB10", 1000)),
        ("NVIDIA H200 MIG, [Insufficient Permissions], [N/A]", Gpu("NVIDIA H200 MIG")),
        ("Card, with a comma, 8192, 0", Gpu("Card, with a comma", 8192)),
    ],
)
def test_unreported_sizes_stay_unknown(said: str, gpu: Gpu) -> None:
    assert read_cards(said, ram_mb=1000) == (gpu,)


def test_no_lines_are_no_cards() -> None:
    with pytest.raises(ProbeFailed):
        read_cards("", 1000)


NVML = """
from types import SimpleNamespace
class NVMLError(Exception): ...
def nvmlInit(): {init}
nvmlDeviceGetCount = lambda: 2
nvmlDeviceGetHandleByIndex = lambda index: index
nvmlDeviceGetName = lambda card: ("NVIDIA L4", "NVIDIA GB10")[card]
def nvmlDeviceGetMemoryInfo(card):
    if card: raise NVMLError("Not Supported")
    return SimpleNamespace(total=23034 << 20, free=22000 << 20)
"""


@pytest.mark.parametrize(("init", "source"), [("...", "nvml"), ("raise NVMLError('no driver')", "none")])
async def test_nvml_is_queried_if_there_is_no_nvidia_smi(
    bare: Path, monkeypatch: pytest.MonkeyPatch, init: str, source: str
) -> None:
    (bare / "pynvml.py").write_text(NVML.format(init=init))
    monkeypatch.syspath_prepend(str(bare))
    monkeypatch.setenv("PYTHONPATH", f"{bare}{os.pathsep}{ROOT}")

    found = await machine(bare).profile()

    assert found.source == source
    if source == "nvml":
        assert found.gpus == (Gpu("NVIDIA L4", 23_034, 22_000), Gpu("NVIDIA GB10", found.ram_mb))
    else:
        assert "no driver" in found.reason


async def test_amd_tells_by_files(bare: Path) -> None:
    amd_card(bare, "card0", "0x8086")
    amd_card(
        bare, "card1", product_name="Radeon Pro", mem_info_vram_total=str(24 * GB), mem_info_vram_used=str(GB)
    )  # fmt: skip
    amd_card(bare, "card2")
    amd_card(bare, "card1-DP-1", mem_info_vram_total=str(8 * GB))

    found = await machine(bare).profile()

    assert found.source == "amd"
    assert found.gpus == (Gpu("Radeon Pro", 24 * 1024, 23 * 1024), Gpu("AMD graphics"))


async def test_an_apple_shares_its_memory(bare: Path) -> None:
    found = await machine(bare, "Darwin arm64").profile()

    assert found.ram_mb
    assert (found.source, found.vram_mb) == ("apple", int(found.ram_mb * 0.75))


async def test_a_container_has_what_it_is_allowed(bare: Path) -> None:
    limit = bare / "sys/fs/cgroup/memory.max"
    limit.parent.mkdir(parents=True)
    limit.write_text(f"{512 * 1024 * 1024}\n")

    assert (await machine(bare).profile()).ram_mb == 512


async def test_it_is_found_out_once(bare: Path) -> None:
    program(bare, f"echo asked >> {bare}/asked; echo 'Card, 8192, 1'")
    asked = machine(bare)

    assert await asked.profile() is await asked.profile()
    assert (bare / "asked").read_text() == "asked\n"
    await asked.close()
