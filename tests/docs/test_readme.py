"""What README and the documented configuration say holds: their examples are run as they stand."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_proxy.backends.catalog import ModelEntry
from forge_proxy.cli.connect.minimum import MINIMUM_WINDOW
from forge_proxy.settings import Settings, load, names
from tests.docs import guides
from tests.fakes.processes import daemon

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONFIG = ROOT / "config" / "forge-proxy.yaml"


def blocks(language: str) -> list[str]:
    """The code blocks of README in a language, `""` for those that name none."""
    return guides.blocks(README, language)


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    with daemon("--backend", "embedded") as process:
        yield process.url


def test_the_curl_line_gets_a_guarded_tool_call(address: str) -> None:
    command = next(block for block in blocks("sh") if block.startswith("curl "))

    done = subprocess.run(
        ["sh", "-c", command.replace("http://127.0.0.1:8081", address)], capture_output=True, check=True, timeout=30
    )

    call = json.loads(done.stdout)["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather"
    assert set(json.loads(call["arguments"])) == {"city", "days"}


def test_the_openai_example_prints_what_it_says(address: str) -> None:
    (example,) = [block for block in blocks("python") if "from openai import" in block]
    asks_at_zero = example.replace("http://127.0.0.1:8081", address).replace(
        "tools=[tool]", "tools=[tool], temperature=0"
    )
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(asks_at_zero, "README.md", "exec"), {})

    assert printed.getvalue().strip() == example.strip().rpartition("# ")[2]


def test_the_workflow_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    (example,) = [block for block in blocks("python") if "from forge_proxy import" in block]
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})

    assert printed.getvalue() == guides.printed_by(example) != ""


def test_the_run_whose_tool_is_ours_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = [block for block in blocks("python") if "required_action" in block]
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()

    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path)}) as process:
        here = example.replace("http://127.0.0.1:8081", process.url)
        with contextlib.redirect_stdout(printed):
            exec(compile(here, "README.md", "exec"), {})

    assert printed.getvalue().strip() == example.strip().rpartition("# ")[2]


def test_the_opencode_example_is_json_that_names_our_address() -> None:
    (example,) = blocks("json")

    assert json.loads(example)["provider"]["forge"]["options"]["baseURL"] == "http://127.0.0.1:8081/v1"


def test_the_first_run_prints_what_it_says() -> None:
    """Each command in its turn, against a daemon as `make run` starts it."""
    (session,) = [block for block in blocks("") if "forge-proxy status" in block]
    make = subprocess.run(["make", "-n", "run"], cwd=ROOT, capture_output=True, text=True, check=True)
    (serve,) = [line for line in make.stdout.splitlines() if "forge-proxy serve" in line]
    options = serve.partition(" serve ")[2].split()

    with daemon(*options) as process:
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        env |= {"FORGE_PROXY_URL": process.url}
        for step in session.split("$ ")[1:]:
            asked, _, said = step.replace("http://127.0.0.1:8081", process.url).partition("\n")
            done = subprocess.run(["sh", "-c", asked], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
            wanted = re.escape(said).replace("…", ".*")
            assert re.fullmatch(wanted, done.stdout, re.DOTALL), f"{asked}: {done.stdout}{done.stderr}"


def test_what_rescue_is_said_to_print_is_what_it_prints(tmp_path: Path) -> None:
    examples = [block for block in blocks("") if "forge-proxy rescue" in block]
    assert examples
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    for example in examples:
        asked = "\n".join(line.removeprefix("$ ") for line in example.splitlines() if line.startswith("$ "))
        said = "".join(line for line in example.splitlines(keepends=True) if not line.startswith("$ "))
        done = subprocess.run(
            ["sh", "-c", asked],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.stdout, done.stderr) == (said, "")


def test_the_documented_configuration_is_the_defaults() -> None:
    assert load(CONFIG, {}).model_dump() == load(None, {}).model_dump()


def test_the_documented_configuration_holds_every_setting() -> None:
    documented: list[str] = []

    def walk(section: dict[str, Any], prefix: str) -> None:
        for name, value in section.items():
            documented.append(f"{prefix}{name}")
            if isinstance(value, dict):
                walk(value, f"{prefix}{name}.")

    walk(yaml.safe_load(CONFIG.read_text()), "")

    assert sorted(documented) == sorted(names(Settings))


def test_the_documented_configuration_holds_every_setting_of_a_model() -> None:
    (example,) = re.findall(r"^# models:\n((?:#.*\n)+)", CONFIG.read_text(), re.MULTILINE)

    assert [name for name in ModelEntry.model_fields if not re.search(rf"\b{name}\b", example)] == []


def test_every_setting_is_described() -> None:
    def undescribed(schema: Any) -> list[str]:
        found = [name for name, field in schema.get("properties", {}).items() if not field.get("description")]
        return found + [name for part in schema.get("$defs", {}).values() for name in undescribed(part)]

    ours = "server backend budget compaction sampling guardrails log llama_server llama_cpp ollama"
    ours += " tools callbacks mcp runs store"

    assert set(undescribed(Settings.model_json_schema())) <= {*ours.split()}


def test_the_clients_minimum_windows_are_those_that_connect_names() -> None:
    rows = re.findall(r"^\| ([\w ]+?) \d[\d.]* \| \d+ kB \| ([\d,]+) \|$", README, re.MULTILINE)
    names = {"Claude Code": "claude"}

    assert {names.get(name, name.lower()): int(tokens.replace(",", "")) for name, tokens in rows} == MINIMUM_WINDOW
