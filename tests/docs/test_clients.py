"""The pages of clients hold: configurations are those that `connect` writes, programs run in real clients."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import yaml

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.setups import DaemonAddress
from tests.docs.guides import GUIDES, ROOT, blocks, printed_by
from tests.fakes.processes import Process, command, daemon, environment
from tests.fakes.says import Said
from tests.harness.backend import Exchange, ScriptedModel
from tests.harness.clients import (
    claude_code,
    codex,
    instructor,
    langgraph,
    litellm,
    openai_agents,
    openai_node,
    pydantic_ai,
)
from tests.harness.packages import Npm, Venv
from tests.harness.response import JsonDict, send
from tests.harness.running import Command, run
from tests.harness.server import ScriptedServer

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


def test_codex_is_configured_as_connect_writes_it() -> None:
    (shown,) = blocks(page("codex"), "toml")

    assert tomllib.loads(shown) == CLIENTS["codex"](TARGET).files[0].values


def test_claude_code_is_configured_as_connect_writes_it() -> None:
    (shown,) = blocks(page("claude-code"), "json")

    assert json.loads(shown) == CLIENTS["claude"](TARGET).files[0].values


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


README = (ROOT / "README.md").read_text()
LINES = {
    f"{name} in {place}": (name, block.splitlines())
    for place, name, text in (("README", "codex", README), ("README", "claude", README),
                              ("its page", "codex", page("codex")), ("its page", "claude", page("claude-code")))
    for block in blocks(text, "sh")
    if f"connect {name} " in block
}  # fmt: skip
"""The three lines for a client on a local model, on any page."""
PACKAGES = {"codex": codex.PACKAGE, "claude": claude_code.PACKAGE}


@pytest.mark.parametrize(("name", "lines"), LINES.values(), ids=LINES)
def test_the_first_two_of_three_lines_configure_a_client_and_ask_a_question(
    name: str, lines: list[str], running: Process, tmp_path: Path
) -> None:
    serve, connect, start = lines

    assert serve.startswith("forge-proxy serve --gguf ")
    assert start.split()[0] == name
    assert shlex.split(connect)[:3] == ["forge-proxy", "connect", name]
    env = {"HOME": str(tmp_path), "FORGE_PROXY_URL": running.url}
    ended = command(*shlex.split(connect)[1:], env=env)
    assert ended.code == 0, ended.err
    assert "reply" in ended.out


@pytest.mark.harness
@pytest.mark.parametrize(("name", "lines"), LINES.values(), ids=LINES)
def test_the_three_lines_run_the_real_client_on_a_model(name: str, lines: list[str], tmp_path: Path) -> None:
    package = PACKAGES[name]
    package.install()
    work = tmp_path / "work"
    subprocess.run(["git", "init", "--quiet", str(work)], check=True)  # Codex wants to be in a repository
    answer = "It prints a greeting."
    with (
        ScriptedServer() as server,
        server.serving(cast("ScriptedModel", Explaining(answer))),
        daemon("--backend", "openai", "--backend-url", server.url) as process,
    ):
        env = {"HOME": str(tmp_path), "FORGE_PROXY_URL": process.url}
        assert command(*shlex.split(lines[1])[1:], env=env).code == 0
        program = Command((package.command, *shlex.split(lines[2])[1:]), {"PATH": package.path, **claude_code.OFF})
        ran = run(program, tmp_path, work, 120.0)

    assert ran.code == 0, ran.printed
    assert answer in ran.printed


class Explaining:
    """A model that answers everything with the same text."""

    def __init__(self, text: str) -> None:
        self._said = Said(text=text)

    def answer(self, body: JsonDict) -> Exchange:
        return Exchange(body, self._said, send(self._said, bool(body.get("stream"))))


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
