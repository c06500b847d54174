"""The target of an attack: a real daemon with a model server behind it, with access to the bytes."""

from __future__ import annotations

import json
import resource
import socket
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from tests.attack.loop_monitor import FIGURES_FILE, LoopFigures, figures_file
from tests.fakes.processes import Process, daemon

JsonDict = dict[str, Any]
CHAT = "/v1/chat/completions"
CLIENTS = 8
"""How many attackers act at a time."""
TOOL: JsonDict = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Answer(NamedTuple):
    """A response as the attacker sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_complete: bool = True
    """Whether it came to its end. A stream that fails after its head is aborted, so that the client notices."""

    @property
    def message(self) -> str:
        """The message of an error in OpenAI's shape; empty if it is none."""
        try:
            return str(json.loads(self.body)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            return ""


@contextmanager
def own_folder() -> Generator[Path]:
    """A folder of an attack's own."""
    with tempfile.TemporaryDirectory(prefix="forge-attack-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class Target:
    """One running daemon, `proxy`, its model server, and the figures of its event loop if that is watched."""

    def __init__(self, proxy: Process, server: Process, loop: LoopFigures | None = None) -> None:
        self.proxy = proxy
        self.server = server
        self.loop = loop
        parts = urlsplit(proxy.url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    @contextmanager
    def connected(self, seconds: float = 30.0) -> Generator[socket.socket]:
        """A connection on which nothing was sent yet; each read and write waits that long at most."""
        with socket.create_connection((self.host, self.port), timeout=seconds) as connection:
            yield connection

    def send(self, data: bytes, seconds: float = 30.0) -> Answer:
        """Send these bytes on a new connection and read one response. Raises `OSError` if none comes."""
        with self.connected(seconds) as connection:
            with suppress(OSError):  # a daemon that has answered early may stop reading
                connection.sendall(data)
            return read_answer(connection)

    def post(self, body: object, *headers: str, path: str = CHAT, seconds: float = 60.0) -> Answer:
        """A POST with this body: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = headers if any(one.lower().startswith("content-type") for one in headers) else (*headers, _JSON)
        return self.send(head("POST", path, f"Content-Length: {len(raw)}", *sent) + raw, seconds)

    def get(self, path: str, *headers: str) -> Answer:
        """A GET."""
        return self.send(head("GET", path, *headers))

    def is_well(self) -> None:
        """Check that a small guarded request is answered right. Raises `AssertionError`."""
        answer = self.post(ask("says", tools=[TOOL]))
        assert answer.status == 200, (
            f"afterwards a small request is answered with {answer.status}: {answer.body[:200]!r}"
        )

    def descriptors(self) -> int:
        """How many files and sockets the daemon has open."""
        return len(list(Path(f"/proc/{self.proxy.pid}/fd").iterdir()))

    def memory_mb(self) -> float:
        """Resident memory of the daemon, in MB."""
        return _status_kb(self.proxy.pid, "VmRSS:") * 1024 / 1e6

    def cpu_seconds(self) -> float:
        """CPU time of the daemon so far."""
        tasks = Path(f"/proc/{self.proxy.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def status(self) -> JsonDict:
        """What the daemon reports of itself."""
        status: JsonDict = httpx.get(f"{self.proxy.url}/admin/v1/status", timeout=30).json()
        return status

    def queue(self) -> JsonDict:
        """How many requests run and wait."""
        return self.status()["queue"]


_JSON = "Content-Type: application/json"


@contextmanager
def target(
    settings: Mapping[str, str],
    *,
    server: Callable[[], AbstractContextManager[Process]],
    descriptors: int | None = None,
) -> Generator[Target]:
    """A daemon with these settings before a model server of its own. `server` starts the latter."""
    with ExitStack() as stack:
        backend = stack.enter_context(server())
        options = ("--backend", "openai", "--backend-url", backend.url)
        figures = stack.enter_context(figures_file())
        state = stack.enter_context(own_folder())
        env = {"XDG_STATE_HOME": str(state), **settings, FIGURES_FILE: str(figures)}
        with _limited(descriptors):
            proxy = stack.enter_context(daemon(*options, env=env, module="tests.attack.loop_monitor", forked=False))
        running = Target(proxy, backend, LoopFigures(figures))
        running.post(ask("says", tools=[TOOL]))  # whatever comes of it: the daemon has then done what it does once
        yield running


@contextmanager
def _limited(descriptors: int | None) -> Generator[None]:
    """What is started meanwhile inherits a limit of open files, hard and soft."""
    if descriptors is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, descriptors), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(model: str, **fields: object) -> JsonDict:
    """A small request to that model of the model server."""
    return {"model": model, "messages": [{"role": "user", "content": "count"}], **fields}


def head(method: str, path: str, *headers: str, version: str = "1.1") -> bytes:
    """The head of a request. A `Host` is added unless one is given."""
    lines = headers if any(line.lower().startswith("host:") for line in headers) else ("Host: localhost", *headers)
    return "\r\n".join([f"{method} {path} HTTP/{version}", *lines, "", ""]).encode("latin-1")


def read_answer(connection: socket.socket) -> Answer:
    """The next response on a connection. Raises `OSError` if it is closed or silent before that."""
    response = HTTPResponse(connection)
    try:
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        try:
            return Answer(response.status, headers, response.read())
        except IncompleteRead as exc:
            return Answer(response.status, headers, exc.partial, is_complete=False)
    except Exception as exc:
        raise ConnectionError(f"no response: {type(exc).__name__}: {exc}") from exc
    finally:
        response.close()


def together(count: int, act: Callable[[int], object], clients: int = CLIENTS) -> list[Any]:
    """Call a function `count` times with limited parallelism. Returns results, and exceptions as values."""

    def attempt(number: int) -> object:
        try:
            return act(number)
        except Exception as exc:  # noqa: BLE001  the attack looks at it
            return exc

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(attempt, range(count)))


def statuses(answers: Sequence[object]) -> dict[str, int]:
    """Poll a condition, with a limit."""
    counts: dict[str, int] = {}
    for answer in answers:
        key = str(answer.status) if isinstance(answer, Answer) else type(answer).__name__
        counts[key] = counts.get(key, 0) + 1
    return counts


def wait_until(happened: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Look again and again, with a bound."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def _status_kb(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field))
