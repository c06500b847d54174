"""Real processes for tests: the daemon, the model server program, and commands that end by themselves.

The output of a process is read as it arrives, so a test waits for a line, with a limit, and never for time to pass.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import psutil

from tests.fakes.forks import Fork, fork

JsonDict = dict[str, Any]
ROOT = Path(__file__).parents[2]
_SECONDS = 90.0
"""Limit of every wait: far above the usual time, so that only what never happens fails."""
_NO_FOLDER = "/dev/null/none"
"""A folder that not even root can create."""


@dataclass(frozen=True)
class Ended:
    """The output and exit code of a command that ended by itself."""

    code: int
    out: str
    err: str


def command(*words: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, stdin: bytes | None = None) -> Ended:
    """Run `forge-proxy` with these arguments to its end, in a forked process, which saves a second of imports.

    A variable that Python reads when it starts needs a new interpreter, as in `command_in_new_interpreter`.
    """
    if _needs_interpreter(env):
        return command_in_new_interpreter(*words, env=env, cwd=cwd, stdin=stdin)
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin or b"")
        given.seek(0)
        running = fork("forge_proxy", words, environment(env), cwd, (given.fileno(), out.fileno(), err.fileno()))
        try:
            code = running.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait(_SECONDS)
            raise
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def command_in_new_interpreter(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, stdin: bytes | None = None
) -> Ended:
    """Run `python -m forge_proxy` with these arguments to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "forge_proxy", *words],
        cwd=cwd, env=environment(env), input=stdin, capture_output=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


class Process:
    """A running Python module, in an interpreter of its own or forked, whose lines on stdout and stderr are kept."""

    def __init__(
        self,
        module: str,
        *words: str,
        env: Mapping[str, str] | None = None,
        stderr: IO[str] | None = None,
        cwd: Path = ROOT,
        limits: Mapping[int, int] | None = None,
        safe_path: bool = False,  # without the project folder at the front of the path
        forked: bool = False,
    ) -> None:
        if forked and not (limits or safe_path or cwd != ROOT or _needs_interpreter(env)):
            self._popen, pipes = _start_fork(module, words, environment(env), stderr)
        else:
            command = [sys.executable, *(["-P"] if safe_path else []), "-m", module, *words]
            self._popen, pipes = _start_interpreter(command, environment(env), stderr, cwd, limits)
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._open = len(pipes)
        self._readers = [threading.Thread(target=self._read, args=(pipe,)) for pipe in pipes]
        for reader in self._readers:
            reader.start()
        self.url = ""

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def printed(self) -> str:
        """Everything it has printed so far, stdout and stderr together."""
        with self._changed:
            return "\n".join(self._lines)

    def wait_for(self, event: str, **fields: object) -> JsonDict:
        """Return the first JSON line that it prints with this event and these fields."""
        wanted = {"event": event, **fields}
        until = time.monotonic() + _SECONDS
        seen = 0
        with self._changed:
            while True:
                for line in self._lines[seen:]:
                    said = _as_json(line)
                    if wanted.items() <= said.items():
                        return said
                seen = len(self._lines)
                if self._open == 0 or not self._changed.wait(until - time.monotonic()):
                    raise AssertionError(f"no line {wanted} among:\n" + "\n".join(self._lines))

    def send_signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def wait(self) -> int:
        """Return its exit code once it has ended and all its output was read."""
        code = self._popen.wait(_SECONDS)
        for reader in self._readers:
            reader.join(_SECONDS)
        return code

    def stop(self) -> int:
        """End it, by force if it does not end by itself."""
        if self._popen.poll() is None:
            self.send_signal(signal.SIGTERM)
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self.wait()
            raise

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


def _start_interpreter(
    command: Sequence[str],
    env: Mapping[str, str],
    stderr: IO[str] | None,
    cwd: Path,
    limits: Mapping[int, int] | None,
) -> tuple[subprocess.Popen[str] | Fork, list[IO[str]]]:
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=stderr or subprocess.PIPE, text=True,
        preexec_fn=partial(_limit, limits) if limits else None,
        start_new_session=True,  # without the terminal of the user who runs the tests: its SIGHUP stops the daemon
    )  # fmt: skip
    return process, [pipe for pipe in (process.stdout, process.stderr) if pipe]


def _start_fork(
    module: str, words: Sequence[str], env: Mapping[str, str], stderr: IO[str] | None
) -> tuple[subprocess.Popen[str] | Fork, list[IO[str]]]:
    out, out_end = os.pipe()
    err, err_end = (None, stderr.fileno()) if stderr else os.pipe()
    with Path(os.devnull).open() as nothing:
        process = fork(module, words, env, ROOT, (nothing.fileno(), out_end, err_end), new_session=True)
    for end in (out_end, err_end) if err is not None else (out_end,):
        os.close(end)
    return process, [os.fdopen(pipe) for pipe in (out, err) if pipe is not None]


@contextmanager
def daemon(
    *options: str,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    limits: Mapping[int, int] | None = None,
    module: str = "forge_proxy",
    forked: bool = True,
) -> Generator[Process]:
    """Run `forge-proxy serve` on a free port, listening, with an embedded model loaded. Its `url` is the root, without
    `/v1`.

    `cwd` is the checkout whose daemon it is, `limits` are hard and soft limits by `resource.RLIMIT_...`, and `module`
    is the program that runs it. Set `forked` to false if memory is measured: a fork shares the modules that its parent
    has imported.
    """
    if "embedded" in options:  # threads of llama.cpp wait for each other in loops
        env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1", **(env or {})}
    process = Process(module, "serve", "--port", "0", *options, env=env, cwd=cwd, limits=limits, forked=forked)
    try:
        process.url = str(process.wait_for("listening")["url"]).removesuffix("/v1")
        if "embedded" in options:
            process.wait_for("ready")
        yield process
    finally:
        process.stop()


@contextmanager
def model_server(slots: int | None = None) -> Generator[Process]:
    """Run the program `tests.fakes.model_server`, listening. It reports its number of slots if `slots` is set."""
    process = Process("tests.fakes.model_server", *([] if slots is None else [str(slots)]), forked=True)
    try:
        process.url = str(process.wait_for("listening")["url"])
        yield process
    finally:
        process.stop()


@contextmanager
def program(module: str, *words: str) -> Generator[Process]:
    """Run a server program that prints a `listening` line with its URL."""
    process = Process(module, *words, forked=True)
    try:
        process.url = str(process.wait_for("listening")["url"])
        yield process
    finally:
        process.stop()


@contextmanager
def messages_server() -> Generator[Process]:
    """Run the program `tests.fakes.messages_server`, listening."""
    process = Process("tests.fakes.messages_server", forked=True)
    try:
        process.url = str(process.wait_for("listening")["url"])
        yield process
    finally:
        process.stop()


@contextmanager
def ollama_server(model: str) -> Generator[Process]:
    """Run the program `tests.fakes.ollama_server`, listening."""
    process = Process("tests.fakes.ollama_server", model, forked=True)
    try:
        process.url = str(process.wait_for("listening")["url"])
        yield process
    finally:
        process.stop()


@contextmanager
def closed_port() -> Generator[int]:
    """Reserve a port that refuses connections and that no other program can use meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def children(pid: int, *, pool: bool = True) -> list[int]:
    """Return the child processes of a process, including ended ones that have not been waited for.

    Without `pool`, those of the process pool are omitted: a starting daemon learns a chat template in such a process.
    The function compares the parents of all processes, because a list made from the threads of one process fails if a
    thread ends in the meantime.
    """
    parent = psutil.Process(pid)
    return [child.pid for child in parent.children() if pool or not _is_of_the_pool(child, parent)]


def _is_of_the_pool(process: psutil.Process, parent: psutil.Process) -> bool:
    try:
        until(lambda: _is_executed(process, parent), "the child is executed")
        return "forge_proxy.engine.process_pool_child" in process.cmdline()
    except psutil.Error:  # it has ended
        return False


def _is_executed(process: psutil.Process, parent: psutil.Process) -> bool:
    """Whether it has a command line of its own: a forked process has that of its parent, and for a moment none."""
    return process.status() == psutil.STATUS_ZOMBIE or process.cmdline() not in ([], parent.cmdline())


def has_ended(pid: int) -> bool:
    """Whether a process has ended; its parent may not have waited for it yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def until(happened: Callable[[], bool], what: str) -> None:
    """Poll a condition, with a limit, for events that nothing reports. What takes long is looked at less often."""
    start = time.monotonic()
    while not happened():
        waited = time.monotonic() - start
        assert waited < _SECONDS, f"never: {what}"
        time.sleep(min(0.02 + waited / 20, 0.25))


def free_port() -> int:
    """Return a port that was free a moment ago, for a process that cannot report which one it took."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def environment(added: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without this user's settings and state, and with these variables.

    No test process connects by TLS, so none reads the 150 certificates of the machine, which takes 20 ms.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORGE_PROXY_", "SSL_CERT_"))}
    own = {
        "PYTHONUNBUFFERED": "1",
        "XDG_STATE_HOME": _NO_FOLDER,
        "XDG_CONFIG_HOME": _NO_FOLDER,
        "SSL_CERT_DIR": _NO_FOLDER,
    }
    return {**kept, **own, **(added or {})}


def _limit(limits: Mapping[int, int]) -> None:
    for name, most in limits.items():
        resource.setrlimit(name, (most, most))


def _needs_interpreter(env: Mapping[str, str] | None) -> bool:
    """Whether Python, or a library that is imported, reads one of these variables when it starts."""
    return any(name.startswith(("PYTHON", "SSL_")) for name in env or {})


def _as_json(line: str) -> JsonDict:
    if not line.startswith("{"):
        return {}
    said: JsonDict = json.loads(line)
    return said
