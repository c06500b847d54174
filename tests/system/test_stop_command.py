"""`forge-proxy stop`, and the error of a second daemon on the same port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from forge_proxy import __version__
from tests.fakes.processes import Process, command, daemon, has_ended


def port_of(process: Process) -> str:
    return process.url.rpartition(":")[2]


def test_stop_ends_the_daemon_and_returns_once_it_has_ended(server: Process, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend-url", server.url, env=env, forked=False) as process:
        ended = command("stop", env=env)
        gone = has_ended(process.pid)

        assert process.wait() == 0
    assert (ended.code, ended.err) == (0, "")
    assert gone
    port = port_of(process)
    assert ended.out == f"stopping forge-proxy {__version__} on port {port} (pid {process.pid})\nstopped\n"
    assert not list((tmp_path / "forge-proxy" / "running").iterdir())


def test_stop_without_a_daemon_is_an_error(tmp_path: Path) -> None:
    ended = command("stop", env={"XDG_STATE_HOME": str(tmp_path)})

    assert ended.code == 1
    assert ended.err.startswith("forge-proxy: no forge-proxy of this user runs. ")


def test_stop_requires_a_choice_among_several_daemons(server: Process, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with (
        daemon("--backend-url", server.url, env=env) as first,
        daemon("--backend-url", server.url, env=env) as second,
    ):
        unclear = command("stop", env=env)
        chosen = command("stop", "--port", port_of(second), env=env)

        assert second.wait() == 0
        assert not has_ended(first.pid)
    assert unclear.code == 1
    assert port_of(first) in unclear.err
    assert "--port" in unclear.err
    assert chosen.code == 0


def test_stop_never_signals_a_process_that_reuses_the_id_of_a_killed_daemon(server: Process, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend-url", server.url, env=env) as process:
        (file,) = (tmp_path / "forge-proxy" / "running").iterdir()
        written = json.loads(file.read_text())
        process.send_signal(signal.SIGKILL)
        process.wait()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        file.write_text(json.dumps({**written, "pid": other.pid}))

        ended = command("stop", env=env)

        assert other.poll() is None
        other.kill()
    assert ended.code == 1
    assert not file.exists()


def test_the_error_for_a_port_in_use_names_the_forge_proxy_that_uses_it(server: Process, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with daemon("--backend-url", server.url, env=env) as process:
        port = port_of(process)

        ended = command("serve", "--port", port, "--backend-url", server.url, env=env)
        of_another_user = command("serve", "--port", port, "--backend-url", server.url)

    hint = "stop it with `forge-proxy stop` or choose another with --port"
    said = f"forge-proxy: port {port} on 127.0.0.1 is already in use by forge-proxy {__version__}"
    assert (ended.code, ended.err) == (1, f"{said} (pid {process.pid}); {hint}\n")
    not_ours = "not started by this user; stop it or choose another with --port"
    assert of_another_user.err == f"{said}, {not_ours}\n"


def test_only_this_user_can_read_what_the_daemon_writes(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path), "FORGE_PROXY_BACKEND__SELF_TEST": "on-load"}
    previous = os.umask(0)  # which the daemon inherits
    try:
        with daemon("--backend", "embedded", env=env) as process:
            os.umask(previous)
            process.wait_for("self-test")
            assert httpx.get(process.url + "/admin/v1/runs", timeout=20).is_success  # opens the store
            written = [(path.name, path.is_dir(), path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")]
    finally:
        os.umask(previous)

    assert {"running", "runs.db", "capabilities.json", f"{process.pid}.json"} <= {name for name, *_ in written}
    assert [one for one in written if one[1:] not in ((True, 0o700), (False, 0o600))] == []
