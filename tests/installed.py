"""`make installed`: the wheel run by `uvx`, and the sdist installed by `pip`, answer the first curl line of README.

Both are built into a temporary folder, from which they run; the project folder is not on their path. Dependencies come
from the package index, so this is not a test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from tests.docs.guides import ROOT, blocks

_SECONDS = 600
"""The bound of each step: dependencies are downloaded."""


def main() -> None:
    """Raise if a step fails."""
    with TemporaryDirectory(prefix="forge-installed-") as name:
        folder = Path(name)
        run([sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], folder)
        (wheel,) = folder.glob("dist/*.whl")
        (sdist,) = folder.glob("dist/*.tar.gz")
        uvx = [Path(sys.executable).with_name("uvx"), "--python", sys.executable]
        check_answer([*uvx, "--from", f"forge-proxy[embedded] @ {wheel.as_uri()}", "forge-proxy"], folder)
        print(f"uvx runs {wheel.name}")  # noqa: T201

        run([sys.executable, "-m", "venv", folder / "venv"], folder)
        run([folder / "venv/bin/python", "-m", "pip", "install", "--quiet", f"{sdist}[embedded]"], folder)
        check_answer([folder / "venv/bin/forge-proxy"], folder)
        print(f"pip installs {sdist.name}")  # noqa: T201


def run(words: Sequence[str | Path], folder: Path) -> None:
    """Run a program there to its end."""
    subprocess.run(words, cwd=folder, env=_environment(folder), timeout=_SECONDS, check=True)


def check_answer(command: Sequence[str | Path], folder: Path) -> None:
    """Start the daemon with this command, and send it the first curl line of README."""
    (curl,) = [block for block in blocks((ROOT / "README.md").read_text(), "sh") if block.startswith("curl ")]
    words = [*command, "serve", "--port", "0", "--backend", "embedded"]
    with subprocess.Popen(words, cwd=folder, env=_environment(folder), stderr=subprocess.PIPE, text=True) as daemon:
        try:
            url = _wait_until_ready(daemon).removesuffix("/v1")
            line = ["sh", "-c", curl.replace("http://127.0.0.1:8081", url)]
            answered = subprocess.run(line, capture_output=True, timeout=60, check=True).stdout
        finally:
            for process in [*psutil.Process(daemon.pid).children(recursive=True), daemon]:  # uvx has a child
                process.terminate()
    call = json.loads(answered)["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
    assert call == "get_weather", answered


def _wait_until_ready(daemon: subprocess.Popen[str]) -> str:
    """Return the URL at which the daemon listens, once its model is loaded."""
    assert daemon.stderr is not None
    url, printed = "", ""
    for line in daemon.stderr:
        printed += line
        found = json.loads(line) if line.startswith("{") else {}
        url = found.get("url", url) if found.get("event") == "listening" else url
        if found.get("event") == "ready":
            return url
    raise AssertionError(f"the daemon has ended:\n{printed}")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "FORGE_"))}
    return {**kept, "XDG_STATE_HOME": str(folder / "state")}


if __name__ == "__main__":
    main()
