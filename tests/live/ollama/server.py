"""A real Ollama for tests: its own folder, its own port, with the tiny model; removed afterwards."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from tests.fakes.processes import ROOT, until
from tests.live.weather import MODEL

_HERE = Path(__file__).parent
BINARY = ROOT / ".ollama" / "bin" / "ollama"
"""The folder into which `make system-ollama` builds."""


@dataclass(frozen=True)
class Running:
    """A running Ollama. Its output and that of its llama-server go to `log`."""

    url: str
    log: Path


class NotBuilt(Exception):
    """No Ollama is installed to test with."""


def ask(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return the response of its own API, errors included."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=60) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        said = error.read()
    return json.loads(said)


@contextmanager
def ollama(folder: Path, *, go_template: bool) -> Generator[Running]:
    """Run an Ollama with the tiny model. With `go_template` it renders prompts and parses calls itself; otherwise its
    llama-server does, by the template in the model file.
    """
    if not BINARY.exists():
        raise NotBuilt(f"no {BINARY}: `make system-ollama` builds it")
    program = folder / "bin" / "ollama"
    _lay_out(folder, program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    env = {
        **os.environ,
        "HOME": str(folder),
        "OLLAMA_HOST": host,
        "OLLAMA_MODELS": str(folder / "models"),
        "OLLAMA_NO_CLOUD": "1",
        "OLLAMA_GO_TEMPLATE": "1" if go_template else "0",
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve"], env=env, stdout=log, stderr=log)
        try:
            until(lambda: _answers(host), "an Ollama that answers")
            command = [program, "create", MODEL, "-f", folder / "Modelfile"]
            subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, timeout=60)
            yield Running(f"http://{host}", folder / "log")
        finally:
            server.terminate()
            server.wait(20)


def _lay_out(folder: Path, program: Path) -> None:
    """Return a folder laid out like an installed Ollama: it looks for the llama-server beside its own program."""
    library = folder / "lib" / "ollama"
    library.mkdir(parents=True)
    program.parent.mkdir()
    shutil.copy(BINARY, program)
    below = library / "llama-server"
    below.write_text(f'#!/bin/sh\nexec {sys.executable} {_HERE / "llama_server.py"} "$@"\n')
    below.chmod(0o755)
    shutil.copy(TINY_MODEL, folder)
    shutil.copy(_HERE / "Modelfile", folder)


def _answers(host: str) -> bool:
    try:
        return "version" in ask(f"http://{host}", "/api/version")
    except OSError:
        return False
