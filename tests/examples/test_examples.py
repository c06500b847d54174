"""Each example runs unchanged, against the embedded test model."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.fakes.processes import ROOT, Process, daemon, environment
from tests.system.test_tasks import GENERATE, open_place

FOLDER = ROOT / "examples"
WEATHER = "3 sunny days in Paris"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    """A daemon as `make run` starts it, with its own state folder."""
    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}) as process:
        yield process


def output_of(*words: str, **env: str) -> str:
    """What a program prints, run from the project folder with the commands of this environment on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment({"PATH": path, **env}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def example(name: str, *words: str, **env: str) -> str:
    return output_of(sys.executable, "-W", "error", f"examples/{name}", *words, **env)


def test_the_sdk_gets_a_tool_call(running: Process) -> None:
    printed = example("01_openai_sdk.py", OPENAI_BASE_URL=f"{running.url}/v1")

    assert printed == 'get_weather {"city": "Paris", "days": 3, "forecast": "sunny"}\n'


def test_a_stream_brings_a_tool_call_and_its_outcome(running: Process) -> None:
    outcome, call = example("02_streaming.py", OPENAI_BASE_URL=f"{running.url}/v1").splitlines()

    assert re.match(r"x-forge-outcome=\w+ x-forge-attempts=\d", outcome)
    assert call == 'tool_calls get_weather {"city": "Paris", "days": 3}'


def test_own_tools_are_called_by_the_runner() -> None:
    assert example("03_own_tools.py") == "The amount is 240.\n"


def test_a_run_over_http_is_completed(running: Process) -> None:
    assert example("04_run_over_http.py", OPENAI_BASE_URL=f"{running.url}/v1") == f"completed {WEATHER}\n"


def test_a_run_uses_a_tool_of_an_mcp_server() -> None:
    assert example("05_mcp_tool.py") == f"completed {WEATHER}\n"


def test_a_task_leaves_a_branch_for_a_review(tmp_path: Path) -> None:
    with open_place(tmp_path, GENERATE) as place, place.daemon() as proxy:
        words = (str(place.repository.path), "cart.py", "Add a total.")
        printed = example("09_task.py", *words, FORGE_PROXY_URL=proxy.url)

    assert re.match(r"forge/task_\w+ waits for a review\n", printed)
    assert "+        return len(self.items)\n" in printed


def test_an_eval_compares_two_presets() -> None:
    printed = output_of("sh", "examples/06_eval.sh", RUNS="2")

    assert "only A" in printed
    assert "quick_two_step" in printed


def test_the_service_starts_and_reports_that_it_is_ready(tmp_path: Path) -> None:
    unit = (FOLDER / "07_systemd" / "forge-proxy.service").read_text()
    (command,) = re.findall(r"^ExecStart=%h/\.local/bin/forge-proxy (.*)$", unit, re.MULTILINE)
    (kind,) = re.findall(r"^Type=(.*)$", unit, re.MULTILINE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        words = (*command.split(), "--backend", "embedded", "--port", "0")
        process = Process("forge_proxy", *words, env=env, forked=True)
        try:
            reported = systemd.recv(4096).decode()
        finally:
            process.stop()

    assert kind == "notify"
    assert reported.startswith("READY=1")


def test_the_container_of_the_compose_file_needs_its_keys() -> None:
    """Its command and variables, on this machine and with the embedded model in place of the server on the host."""
    service: dict[str, Any] = yaml.safe_load((FOLDER / "08_compose" / "compose.yaml").read_text())["services"][
        "forge-proxy"
    ]
    words = service["command"]
    assert words[:3] == ["serve", "--host", "0.0.0.0"]
    variables = {
        name: re.sub(r"\$\{(\w+):\?.*\}", r"key-of-\1", value) for name, value in service["environment"].items()
    }

    with daemon("--host", "127.0.0.1", "--backend", "embedded", env=variables) as process:
        without = httpx.get(f"{process.url}/v1/models")
        client = {"Authorization": "Bearer key-of-API_KEYS"}
        with_key = httpx.get(f"{process.url}/v1/models", headers=client)
        admin = httpx.get(f"{process.url}/admin/v1/status", headers=client)

    assert (without.status_code, with_key.status_code, admin.status_code) == (401, 200, 401)


def test_the_table_lists_every_example() -> None:
    listed = set(re.findall(r"^\| \[([^\]]+)\]", (FOLDER / "README.md").read_text(), re.MULTILINE))

    files = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert listed == files - {"README.md"}
