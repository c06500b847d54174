"""README and the documented configuration are correct: their examples are run unchanged."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from forge_proxy.backends.catalog import ModelEntry
from forge_proxy.cli.app import app
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
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example.replace("http://127.0.0.1:8081", address), "README.md", "exec"), {})

    assert printed.getvalue() == guides.printed_by(example) != ""


def test_it_is_one_screen_of_what_and_how() -> None:
    assert len(README.splitlines()) <= 200


def test_what_is_linked_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", README):
        assert (ROOT / target).exists(), target


def test_make_run_is_what_the_session_of_the_first_page_is_run_with() -> None:
    make = subprocess.run(["make", "-n", "run", "ARGS="], cwd=ROOT, capture_output=True, text=True, check=True)

    assert [
        line.partition(" serve ")[2].strip() for line in make.stdout.splitlines() if "forge-proxy serve" in line
    ] == ["--backend embedded"]


def test_its_commands_can_be_checked() -> None:
    """Those of the section about models, as far as a test can without their servers: by their options."""
    group = typer.main.get_command(app)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith(".venv/bin/forge-proxy")]
    assert len(lines) >= 4

    for line in lines:
        _, name, *words = shlex.split(line, comments=True)
        command: Any = group.commands[name]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        command.make_context(name, list(words), parent=None)


def test_the_workflow_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nonexistent")
    (example,) = [block for block in blocks("python") if "from forge_proxy import" in block]
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})

    assert printed.getvalue() == guides.printed_by(example) != ""


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
    ours += " tools callbacks mcp runs store files jobs temporal batches tasks tiers ledger telemetry traces"

    assert set(undescribed(Settings.model_json_schema())) <= {*ours.split()}
