"""The pages of clients hold: configurations are those that `connect` writes, programs run in real clients."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.setups import DaemonAddress
from tests.docs.guides import GUIDES, blocks, printed_by
from tests.fakes.processes import Process, daemon, environment
from tests.harness.clients import instructor, langgraph, litellm, openai_agents, openai_node, pydantic_ai
from tests.harness.packages import Npm, Venv

ADDRESS = "http://127.0.0.1:8081"
FOLDER = GUIDES / "clients"
TARGET = DaemonAddress(ADDRESS, "none", "your-model", 32768)


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def test_opencode_is_configured_as_connect_writes_it() -> None:
    (shown,) = blocks(page("opencode"), "json")

    assert json.loads(shown) == CLIENTS["opencode"](TARGET).files[0].values


def test_continue_is_configured_as_connect_writes_it() -> None:
    (shown,) = blocks(page("continue"), "yaml")

    assert yaml.safe_load(shown) == CLIENTS["continue"](TARGET).files[0].values


def test_aider_has_the_options_that_connect_writes() -> None:
    values = CLIENTS["aider"](TARGET).files[0].values

    assert " ".join(f"--{name} {value}" for name, value in values.items()) in page("aider")


@pytest.mark.parametrize(("name", "client"), [("codex", "codex")])
def test_a_client_of_a_missing_route_is_said_not_to_work(name: str, client: str) -> None:
    assert f"(`{CLIENTS[client](TARGET).route}`), which forge-proxy does not serve yet" in page(name)


def test_the_table_of_connect_has_every_client_and_the_names_of_its_files() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", page("index"), re.MULTILINE)[1:]
    rows = [(name, text) for names, text in rows for name in re.findall(r"`([\w-]+)`", names)]

    assert {name for name, _ in rows} == set(CLIENTS)
    for name, text in rows:
        for file in CLIENTS[name](TARGET).files:
            assert Path(file.path).name in text or name in ("goose", "roo")


@pytest.mark.parametrize("name", ["qwen-code", "pi"])
def test_the_json_of_a_client_can_be_read(name: str) -> None:
    for block in blocks(page(name), "json"):
        json.loads(block)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.md")), ids=lambda file: file.stem)
def test_a_page_names_the_address_or_the_command_that_knows_it(file: Path) -> None:
    assert f"{ADDRESS}/v1" in file.read_text() or "forge-proxy connect" in file.read_text()


@dataclass(frozen=True)
class Program:
    """The program of a page, and the client it runs in."""

    name: str
    package: Venv | Npm
    language: str = "python"

    def run(self, url: str, folder: Path) -> str:
        (source,) = blocks(page(self.name), self.language)
        source = source.replace(ADDRESS, url)
        self.package.install()
        if isinstance(self.package, Npm):
            file = self.package.folder / f"example-{folder.name}.mjs"
            words = ["node", str(file)]
        else:
            file = folder / "example.py"
            words = [str(self.package.python), str(file)]
        file.write_text(source)
        try:
            env = environment({"PATH": self.package.path, "LITELLM_LOCAL_MODEL_COST_MAP": "True"})
            done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False)
        finally:
            file.unlink()
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


PROGRAMS = [
    Program("langchain", langgraph.ROWS[0].package),
    Program("pydantic-ai", pydantic_ai.ROWS[0].package),
    Program("openai-agents", openai_agents.ROWS[0].package),
    Program("litellm", litellm.ROWS[0].package),
    Program("instructor", instructor.ROWS[0].package),
    Program("openai-node", openai_node.ROWS[0].package, "js"),
]


@pytest.fixture(scope="module")
def running() -> Generator[Process]:
    with daemon("--backend", "embedded") as process:
        yield process


@pytest.mark.harness
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_prints_what_it_says_in_the_real_client(program: Program, running: Process, tmp_path: Path) -> None:
    (source,) = blocks(page(program.name), program.language)
    said = printed_by(source) or "".join(f"{text}\n" for text in re.findall(r"console\.log\(.*\); // (.*)", source))

    assert program.run(running.url, tmp_path) == said != ""
