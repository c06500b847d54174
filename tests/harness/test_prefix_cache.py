"""Ten turns of real Claude Code on a real llama.cpp: from the second turn on, the server processes only new tokens.

Claude Code puts a block that differs between conversations before its prompt unless a variable turns it off; here it
does. The model is the test model with a window that holds the prompt of 22,000 tokens: its output has no meaning, but
what is cached does not depend on it.
"""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.setups import DaemonAddress
from forge_proxy.cli.connect.write import write
from tests.fakes.processes import daemon
from tests.harness.clients.claude_code import OFF, PACKAGE

_WINDOW = 65_536
_TURNS = 10
_SECONDS = 600.0
_UINT32 = 4
"""The type of the number in a GGUF file."""


def with_window(model: Path, window: int, folder: Path) -> Path:
    """Return a copy of the model file with this window as its training window: llama.cpp allows no larger one."""
    content = bytearray(model.read_bytes())
    name = b".context_length"
    at = content.index(name) + len(name)
    assert struct.unpack_from("<I", content, at) == (_UINT32,)
    struct.pack_into("<I", content, at + 4, window)
    copy = folder / "long.gguf"
    copy.write_bytes(content)
    return copy


def configure(url: str, home: Path) -> None:
    """Configure it as `connect` does, but with the block that changes, and with short responses."""
    (file,) = CLIENTS["claude"](DaemonAddress(url, "none", "long", _WINDOW)).files
    file.values["env"] |= {"CLAUDE_CODE_ATTRIBUTION_HEADER": "1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "24"}
    write(file, home)


def ask(question: str, home: Path, *, is_first: bool) -> dict[str, Any]:
    """Run one turn of the conversation. Return the usage of all its requests."""
    words = (PACKAGE.command, "-p", *(() if is_first else ("--continue",)), "--output-format", "json", "--", question)
    env = {"PATH": PACKAGE.path, "HOME": str(home), "CI": "1", **OFF}
    done = subprocess.run(
        words, cwd=home, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
    )
    return json.loads(done.stdout)["usage"]


@pytest.mark.harness
def test_another_conversation_finds_the_system_prompt_and_the_tools_cached(tmp_path: Path) -> None:
    PACKAGE.install()
    model = with_window(TINY_MODEL, _WINDOW, tmp_path)
    with daemon("--backend", "embedded", "--gguf", str(model), "--ctx", str(_WINDOW)) as process:
        configure(process.url, tmp_path)
        first, other = (ask(question, tmp_path, is_first=True) for question in ("Say hello.", "What is new here?"))

    assert other["input_tokens"] < first["input_tokens"] / 2


@pytest.mark.harness
def test_from_the_second_turn_on_almost_the_whole_prompt_is_cached(tmp_path: Path) -> None:
    PACKAGE.install()
    model = with_window(TINY_MODEL, _WINDOW, tmp_path)
    with daemon("--backend", "embedded", "--gguf", str(model), "--ctx", str(_WINDOW)) as process:
        configure(process.url, tmp_path)
        turns = [ask(f"Question {turn}: say hello.", tmp_path, is_first=turn == 0) for turn in range(_TURNS)]

    assert turns[0]["input_tokens"] > 10_000  # nothing is cached before the first request
    shares = [turn["input_tokens"] / (turn["input_tokens"] + turn["cache_read_input_tokens"]) for turn in turns[1:]]
    assert max(shares) < 0.02, shares
