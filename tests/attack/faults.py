"""Faults of the machine: processes that are killed or stopped, full disks, damaged databases, storms of signals."""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from tests.attack.attack import Drill
from tests.attack.target import CHAT, TOOL, Target, ask, own_folder, together
from tests.fakes.far_side import FarSide, far_side
from tests.fakes.postgres import postgres
from tests.fakes.processes import Process, children, daemon, has_ended, model_server, until
from tests.system.runs import FINISHED, RUNS, Place, kill, look, submission, submit

_PROMPT = {"role": "user", "content": "Please get the weather with city Paris and days 3."}


def _chat(proxy: Process, seconds: float = 60, **fields: object) -> httpx.Response:
    body = {"model": "tiny-tools", "messages": [_PROMPT], "max_tokens": 100, **fields}
    return httpx.post(proxy.url + CHAT, json=body, timeout=seconds)


def _embedded_is_hit(number: int) -> None:
    """The embedded server is killed or stopped in mid-stream; later requests are answered."""
    env = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1", "FORGE_PROXY_BACKEND__SILENCE_SECONDS": "5"}
    with daemon("--backend", "embedded", env=env) as proxy:
        with suppress(httpx.HTTPError), httpx.stream(
            "POST", proxy.url + CHAT, timeout=30,
            json={"model": "tiny-tools", "messages": [_PROMPT], "stream": True, "max_tokens": 2000, "ignore_eos": True},
        ) as response:  # fmt: skip
            pieces = response.iter_bytes()
            next(pieces)
            for server in _leaves(proxy.pid):
                os.kill(server, number)
            for _ in pieces:
                pass
        deadline = time.monotonic() + 60
        while _chat(proxy).status_code != 200:
            assert time.monotonic() < deadline, "no request is answered within 60 s"
            time.sleep(0.5)
        assert "Traceback" not in proxy.printed


def _leaves(pid: int) -> list[int]:
    """The processes below a process that have no children: the model server, without what watches it."""
    return [leaf for child in children(pid) for leaf in (_leaves(child) or [child])]


def _daemon_is_killed() -> None:
    """kill -9 at ten moments of a run; it is resumed, and no tool whose outcome was stored is called again."""
    tools = [f"look_{number}" for number in range(9)]
    with far_side() as side, own_folder() as folder:
        side.lag = 0.05
        place = Place(side, folder)
        with place.daemon() as proxy:
            run = submit(proxy, submission(side, *tools, "finish"))
            side.wait_for_called(tools[0])
            kill(proxy)
        kills = 1
        for tool in tools[1:]:
            stored, calls = place.stored_keys(), Counter(call["key"] for call in side.called)
            with place.daemon() as proxy:
                side.wait_for_called(tool)
                kill(proxy)
            kills += place.unfinished()
            again = [key for key in stored if Counter(call["key"] for call in side.called)[key] != calls[key]]
            assert not again, f"{len(again)} tools whose outcome was stored were called again"
        assert kills > 5, f"only {kills} of the kills were in mid-run"
        with place.daemon() as proxy:
            until(lambda: look(proxy, run["id"])["status"] in FINISHED, "the run ends")
            done = look(proxy, run["id"])
            assert done["status"] == "completed", done["error"]
            assert done["completed_steps"] == [*tools, "finish"], f"steps: {done['completed_steps']}"


def _killed_daemon_leaves_no_server() -> None:
    """kill -9 in mid-stream: the embedded model server ends as well."""
    with daemon("--backend", "embedded", env={"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1"}) as proxy:
        body = {"model": "tiny-tools", "messages": [_PROMPT], "stream": True, "max_tokens": 2000, "ignore_eos": True}
        servers: list[int] = []
        with suppress(httpx.HTTPError), httpx.stream("POST", proxy.url + CHAT, timeout=30, json=body) as response:
            next(response.iter_bytes())
            servers += _leaves(proxy.pid)
            assert servers, "there is no model server"
            kill(proxy)
        for server in servers:
            until(partial(has_ended, server), "the model server ends")


def _store_is_hit(hit: Callable[[Place], None]) -> None:
    """The database is damaged under a running daemon: chats continue, runs work or get an honest error, no hangs."""
    with far_side() as side, own_folder() as folder:
        place = Place(side, folder)
        with place.daemon() as proxy:
            run = submit(proxy, submission(side, "look", "finish"))
            until(lambda: look(proxy, run["id"])["status"] in FINISHED, "the first run ends")
            hit(place)
            for method, path, body in (
                ("GET", f"{RUNS}/{run['id']}", None),
                ("GET", RUNS, None),
                ("POST", RUNS, submission(side, "look", "finish")),
            ):
                response = httpx.request(method, proxy.url + path, json=body, timeout=40)
                assert response.status_code in (200, 503), (
                    f"{method} {path}: {response.status_code} {response.text[:150]}"
                )
            tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
            answered = httpx.post(proxy.url + CHAT, json=ask("scripted", tools=[tool]), timeout=30)
            assert answered.status_code == 200, f"a chat is answered with {answered.status_code}"
            assert "Traceback" not in proxy.printed
            if response.status_code == 200:
                assert place.file.exists(), "a run was accepted into a file that no longer exists"


def _deleted(place: Place) -> None:
    for file in place.file.parent.glob("runs.db*"):
        file.unlink()


def _corrupted(place: Place) -> None:
    size = place.file.stat().st_size
    with place.file.open("r+b") as file:
        file.write(os.urandom(size))
    for log in place.file.parent.glob("runs.db-*"):
        log.write_bytes(os.urandom(4096))


def _locked(place: Place) -> None:
    code = "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); time.sleep(60)"
    subprocess.Popen(["timeout", "60", sys.executable, "-c", code, str(place.file)])
    until(lambda: _is_locked(place.file), "the database is locked")


def _is_locked(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def _disk_is_read_only() -> None:
    """A state folder on a read-only file system: the daemon serves chats; runs get an error with the reason."""
    with _far_side_on("ro") as (side, disk), _daemon_with_state_on(side, disk) as proxy:
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        assert httpx.post(proxy.url + CHAT, json=ask("scripted", tools=[tool]), timeout=30).status_code == 200
        response = httpx.post(proxy.url + RUNS, json=submission(side, "look", "finish"), timeout=40)
        assert response.status_code == 503, f"a run is answered with {response.status_code}"


def _disk_becomes_read_only() -> None:
    """The database of an earlier daemon on a disk that is read-only now: chats are answered; later all works again."""
    with _far_side_on("size=8m") as (side, disk):
        with _daemon_with_state_on(side, disk) as proxy:
            run = submit(proxy, submission(side, "look", "finish"))
            until(lambda: look(proxy, run["id"])["status"] in FINISHED, "the first run ends")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with _daemon_with_state_on(side, disk) as proxy:
            tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
            assert httpx.post(proxy.url + CHAT, json=ask("scripted", tools=[tool]), timeout=30).status_code == 200
            response = httpx.post(proxy.url + RUNS, json=submission(side, "look", "finish"), timeout=40)
            assert response.status_code == 503, f"a run is answered with {response.status_code}"
            response = httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=40)
            assert response.status_code in (200, 503), f"a stored run: {response.status_code}"
            assert "Traceback" not in proxy.printed
            subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
            until(lambda: httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=40).status_code == 200, "it is read")
            later = submit(proxy, submission(side, "look", "finish"))
            until(lambda: look(proxy, later["id"])["status"] in FINISHED, "a later run ends")


def _only_state_is_read_only() -> None:
    """A state folder that cannot be written, and a store elsewhere: chats and runs work."""
    with (
        _far_side_on("ro") as (side, disk),
        own_folder() as folder,
        Place(side, folder).daemon(env={"XDG_STATE_HOME": str(disk)}) as proxy,
    ):
        run = submit(proxy, submission(side, "look", "finish"))
        until(lambda: look(proxy, run["id"])["status"] in FINISHED, "the run ends")
        assert look(proxy, run["id"])["status"] == "completed"
        assert "Traceback" not in proxy.printed


@contextmanager
def _far_side_on(options: str) -> Generator[tuple[FarSide, Path]]:
    """A model server, and a file system with these options for the state."""
    with far_side() as side, own_folder() as folder, _mounted(folder / "disk", options) as disk:
        yield side, disk


def _daemon_with_state_on(side: FarSide, disk: Path) -> AbstractContextManager[Process]:
    return Place(side, disk).daemon(env={"XDG_STATE_HOME": str(disk)})


@contextmanager
def _mounted(folder: Path, options: str) -> Generator[Path]:
    """A file system of its own, in memory. Needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _disk_is_full() -> None:
    """State and store on a full file system: chats are answered, runs get a 503, and later they work again."""
    with (
        _far_side_on("size=600k") as (side, disk),
        Place(side, disk).daemon(env={"XDG_STATE_HOME": str(disk)}) as proxy,
    ):

        def post(size: int) -> httpx.Response:
            body = submission(side, "look", "finish", metadata={"filler": "x" * size})
            return httpx.post(proxy.url + RUNS, json=body, timeout=40)

        assert post(0).status_code == 200
        with suppress(OSError), (disk / "filler").open("wb") as filler:
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        came = {post(50_000).status_code for _ in range(5)}
        assert came <= {200, 503}, f"answered with {came}"
        assert 503 in came, "the disk is full and runs are still accepted"
        (disk / "filler").unlink()
        assert post(0).status_code == 200, "there is room again and runs are still refused"
        assert "Traceback" not in proxy.printed


def _postgres_is_killed() -> None:
    with (
        far_side() as side, postgres() as database, own_folder() as folder,
        Place(side, folder, database.url).daemon() as proxy,
    ):  # fmt: skip
        side.hold("look")
        run = submit(proxy, submission(side, "look", "finish"))
        side.wait_for_called("look")
        database.stop()
        side.let_go("look")
        response = httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=40)
        assert response.status_code == 503, f"without its database: {response.status_code}"
        database.start()
        until(lambda: httpx.get(f"{proxy.url}{RUNS}/{run['id']}", timeout=40).status_code == 200, "it is back")
        until(lambda: look(proxy, run["id"])["status"] in FINISHED, "the run ends")
        assert look(proxy, run["id"])["status"] == "completed", look(proxy, run["id"])["error"]


def _signals(number: int) -> None:
    """A storm of signals while requests come: SIGHUP loses none, SIGTERM ends the daemon cleanly."""
    with model_server() as server, daemon("--backend-url", server.url) as proxy:
        target = Target(proxy, server)

        def act(turn: int) -> object:
            if turn % 2:
                proxy.send_signal(number)
                return None
            return target.post(ask("says", tools=[TOOL]))

        came = together(200, act)
        failed = [one for one in came if isinstance(one, Exception)]
        if number == signal.SIGHUP:
            assert not failed, f"{len(failed)} requests failed: {failed[0]}"
            target.is_well()
        else:
            assert proxy.wait() == 0, "it did not end cleanly"
        assert "Traceback" not in proxy.printed


def _reload_of_a_broken_file() -> None:
    with model_server() as server, own_folder() as folder:
        file = folder / "forge-proxy.yaml"
        file.write_text("server: {max_body_mb: 8}\n")
        with daemon("--backend-url", server.url, "--config", str(file)) as proxy:
            target = Target(proxy, server)
            for broken in ("server: {max_body_mb: -1}\n", "server: [\n", "\0\xff", "nonsense: 1\n"):
                file.write_text(broken)
                proxy.send_signal(signal.SIGHUP)
                came = together(50, lambda _: target.post(ask("says", tools=[TOOL])))
                assert not [one for one in came if isinstance(one, Exception)], "a request failed"
            file.unlink()
            proxy.send_signal(signal.SIGHUP)
            target.is_well()
            assert "Traceback" not in proxy.printed


def _log_pipe_nobody_reads() -> None:
    """Standard error is a pipe that is full: requests are answered all the same."""
    with model_server() as server:
        words = ["-m", "forge_proxy", "serve", "--port", "0", "--backend-url", server.url]
        process = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "XDG_STATE_HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            url = _url_in(process)
            body = ask("says", tools=[TOOL])
            with httpx.Client(timeout=10) as client:
                for turn in range(1500):
                    try:
                        assert client.post(url + CHAT, json=body).status_code == 200
                    except httpx.TimeoutException:
                        raise AssertionError(f"blocked after {turn} requests") from None
        finally:
            process.kill()
            process.wait()


def _url_in(process: subprocess.Popen[str]) -> str:
    """Return the URL from the log line about the listening address, from either pipe; read nothing more."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe]
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for pipe in select.select(pipes, [], [], 1)[0]:
            line = pipe.readline()
            if line.startswith("{") and json.loads(line).get("event") == "listening":
                return str(json.loads(line)["url"]).removesuffix("/v1")
    raise AssertionError("it does not listen")


ATTACKS = [
    Drill("embedded server killed in mid-stream", "faults", partial(_embedded_is_hit, signal.SIGKILL)),
    Drill("embedded server stopped in mid-stream", "faults", partial(_embedded_is_hit, signal.SIGSTOP)),
    Drill("daemon killed at ten moments of a run", "faults", _daemon_is_killed),
    Drill("daemon killed in mid-stream of its embedded server", "faults", _killed_daemon_leaves_no_server),
    Drill("database deleted", "faults", partial(_store_is_hit, _deleted)),
    Drill("database overwritten with garbage", "faults", partial(_store_is_hit, _corrupted)),
    Drill("database locked by another process", "faults", partial(_store_is_hit, _locked)),
    Drill("disk read-only", "faults", _disk_is_read_only),
    Drill("disk that is read-only from the second start on", "faults", _disk_becomes_read_only),
    Drill("state read-only, store not", "faults", _only_state_is_read_only),
    Drill("disk full", "faults", _disk_is_full),
    Drill("PostgreSQL killed in mid-run", "faults", _postgres_is_killed),
    Drill("100 SIGHUP under load", "faults", partial(_signals, signal.SIGHUP)),
    Drill("100 SIGTERM under load", "faults", partial(_signals, signal.SIGTERM)),
    Drill("reload of broken and missing settings under load", "faults", _reload_of_a_broken_file),
    Drill("a log pipe that nobody reads", "faults", _log_pipe_nobody_reads),
]
