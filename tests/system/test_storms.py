"""Hundreds of signals, and an invalid settings file under load: the daemon keeps serving, or ends cleanly."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.fakes.processes import Process, daemon
from tests.system.asking import PATH, ask

_REQUESTS = 20


def test_reloads_of_an_invalid_file_under_load_change_nothing_and_are_reported(server: Process, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("guardrails: {max_retries: 1}")
    with daemon("--config", str(file), "--backend-url", server.url) as process, ThreadPoolExecutor(4) as pool:
        file.write_text("guardrails: {max_retries: [")
        asked = [pool.submit(httpx.post, process.url + PATH, json=ask("says"), timeout=30) for _ in range(_REQUESTS)]
        for _ in range(200):
            process.send_signal(signal.SIGHUP)
        statuses = [answer.result().status_code for answer in asked]
        process.wait_for("not reloaded")
        file.write_text("guardrails: {max_retries: 2}")
        process.send_signal(signal.SIGHUP)
        process.wait_for("reloaded")
        retries = httpx.get(process.url + "/admin/v1/guardrails", timeout=30).json()["max_retries"]

    assert statuses == [200] * _REQUESTS
    assert retries == 2
    assert "Traceback" not in process.printed


def test_a_storm_of_stops_and_reloads_ends_the_daemon_cleanly(server: Process) -> None:
    with daemon("--backend-url", server.url) as process:
        for _ in range(100):
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
        code = process.wait()

    assert code == 0
    assert "Traceback" not in process.printed
    assert '"event":"stopped"' in process.printed
