"""Ctrl-C while a command starts: it ends without a traceback, whatever is being imported."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.processes import ROOT, environment

_INTERRUPTS_ITSELF = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for tests that run in the background

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # Python handles a signal between two instructions
                pass
        return None

interrupt = Interrupt()
sys.meta_path.insert(0, interrupt)
sys.argv = ["forge-proxy", *{words!r}]
from forge_proxy.cli import main
main()
"""
_SERVE = ("serve", "--port", "0", "--backend-url", "http://127.0.0.1:9")
_MOMENTS = [
    "typer", "pydantic", "forge_proxy.settings", "forge_proxy.daemon", "aiohttp", "fastapi", "uvicorn", "structlog",
    "uvloop", "forge_proxy.daemon.serving",
]  # fmt: skip
"""What `serve` imports, from its first tenth of a second to its last."""


@pytest.mark.parametrize("module", _MOMENTS)
def test_an_interrupt_during_an_import_prints_nothing(module: str, tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(_INTERRUPTS_ITSELF.format(module=module, words=_SERVE))
    words = [sys.executable, str(script)]
    env = environment({"PYTHONPATH": str(ROOT)})

    ended = subprocess.run(words, env=env, capture_output=True, timeout=30, check=False)

    assert ended.returncode in (-signal.SIGINT, 130)  # a shell reports both as 130
    assert (ended.stdout, ended.stderr) == (b"", b"")


@pytest.mark.parametrize("words", [("status",), ("config", "check"), ("check", "--backend-url", "http://127.0.0.1:9")])
def test_an_interrupt_of_another_command_prints_no_traceback(words: tuple[str, ...], tmp_path: Path) -> None:
    module = {"status": "httpx", "config": "forge_proxy.settings.startup_checks", "check": "fastapi"}[words[0]]
    script = tmp_path / "interrupted.py"
    script.write_text(_INTERRUPTS_ITSELF.format(module=module, words=words))

    ended = subprocess.run(
        [sys.executable, str(script)],
        env=environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode in (-signal.SIGINT, 130)
    assert b"Traceback" not in ended.stderr
