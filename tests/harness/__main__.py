"""`make harness`: real agent harnesses do a small task with a model that makes a mistake, directly and through us.

Prints a line for each mistake. Fails when a task that goes through the daemon is not done.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.backend import ANSWER, MISTAKES, MistakenModel
from tests.harness.clients import HARNESSES, Harness, install, run


@contextmanager
def daemon(backend_url: str) -> Generator[str]:
    """The daemon in front of a backend; its base URL."""
    command = [
        sys.executable,
        "-m",
        "forge_proxy",
        "serve",
        "--port",
        "0",
        "--backend",
        "openai",
        "--backend-url",
        backend_url,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr)
        url = next(line["url"] for line in lines if line["event"] == "listening")
        try:
            yield url.removesuffix("/v1")
        finally:
            process.terminate()
            process.stderr.close()


def do_task(harness: Harness, command: Path, mistake: str, *, through_daemon: bool) -> str:
    """Let a harness do its task against a model that makes `mistake`; `done`, or how it ended."""
    with tempfile.TemporaryDirectory() as home, MistakenModel(mistake) as model:
        if through_daemon:
            with daemon(model.url) as url:
                ran = run(harness, command, Path(home), url)
        else:
            ran = run(harness, command, Path(home), model.url)
        if model.file_read and ANSWER in ran.printed:
            return "done"
        return f"file {'read' if model.file_read else 'not read'}, exit code {ran.code}"


def main() -> int:
    """Run every harness with every mistake, both ways."""
    failed = 0
    for harness in HARNESSES:
        command = install(harness)
        for mistake in MISTAKES:
            direct = do_task(harness, command, mistake, through_daemon=False)
            guarded = do_task(harness, command, mistake, through_daemon=True)
            failed += guarded != "done"
            sys.stdout.write(f"{harness.name:10} {mistake:14} direct: {direct:32} through forge-proxy: {guarded}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
