"""The pages of the documentation hold: commands, settings, routes and links exist, sessions print what they show.

The examples of the guides are run in test_guides.py, those of single pages in the tests that are named after them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from forge_proxy.api.errors import ERROR_TABLE
from forge_proxy.cli.app import app
from forge_proxy.cli.connect.minimum import MINIMUM_WINDOW
from forge_proxy.settings import Settings, load, names
from scripts.generated import GENERATED
from tests.docs.guides import GUIDES, ROOT, blocks, printed_by
from tests.fakes.llama_cpp import llama_cpp
from tests.fakes.processes import Process, daemon, environment, free_port
from tests.folding import folded

ADDRESS = "http://127.0.0.1:8081"
PAGES = {str(path.relative_to(GUIDES)): path.read_text() for path in sorted(GUIDES.rglob("*.md"))}
WRITTEN = {name: text for name, text in PAGES.items() if not name.startswith("decisions/0")}
SECTIONS = "|".join(Settings.model_fields)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    """A daemon as `make run` starts it, with its own state folder."""
    with daemon("--backend", "embedded", env={"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}) as process:
        yield process


def shell(line: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", line],
        cwd=cwd, env=environment({"PATH": path, **env}), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def sessions(page: str) -> list[list[tuple[str, str]]]:
    """The terminal sessions of a page: each command with what it is said to print."""
    shown = [block for block in blocks(PAGES[page], "") if block.startswith("$ ")]
    return [
        [(asked, said) for asked, _, said in (step.partition("\n") for step in block[2:].split("\n$ "))]
        for block in shown
    ]


def assert_printed(said: str, done: subprocess.CompletedProcess[str]) -> None:
    """Check that the output is the documented one; `…` matches any text."""
    wanted = re.escape(said.rstrip("\n")).replace("…", ".*")
    assert re.fullmatch(wanted, done.stdout.rstrip("\n"), re.DOTALL), done.stdout + done.stderr


@folded
@pytest.mark.parametrize("path", GENERATED)
def test_a_generated_file_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == GENERATED[path](), "run `make generate`"


def test_the_navigation_names_every_page_once() -> None:
    def pages_in(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for one in (entry.values() if isinstance(entry, dict) else entry) for page in pages_in(one)]

    listed = pages_in(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"])

    assert sorted(listed) == sorted(WRITTEN)


def test_the_list_of_decisions_is_complete() -> None:
    listed = re.findall(r"\]\((\d[^)]+)\)", PAGES["decisions/README.md"])

    assert listed == [name.removeprefix("decisions/") for name in PAGES if name.startswith("decisions/0")]


@folded
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_linked_to_is_there(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", WRITTEN[name]):
        assert ((GUIDES / name).parent / target).exists(), target


@folded
@pytest.mark.parametrize("name", WRITTEN)
def test_the_commands_are_ones_that_there_are(name: str) -> None:
    group = typer.main.get_command(app)
    lines = [line for block in blocks(WRITTEN[name], "sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += [asked.partition("|")[0] for session in sessions(name) for asked, _ in session]
    ours = [line for line in lines if re.match(r"(FORGE_PROXY_\w+=\S+ )*forge-proxy ", line)]
    words_of = [shlex.split(line[line.index("forge-proxy ") :], comments=True) for line in ours]

    for _, *words in [words for words in words_of if words[1][0] != "-"]:
        command: Any = group
        context = command.make_context("forge-proxy", [*words], resilient_parsing=False)
        while hasattr(command, "resolve_command"):
            _, command, words = command.resolve_command(context, words)
            context = command.make_context(command.name, [*words], parent=context)


@pytest.mark.parametrize("name", [name for name in WRITTEN if not name.startswith(("clients/", "tools"))])
def test_the_settings_of_examples_can_be_used(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TEAM_KEY", "ADMIN_KEY", "SERVER_KEY"):
        monkeypatch.setenv(variable, "sk-one")
    for number, block in enumerate(blocks(WRITTEN[name], "yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        load(file, {})


@folded
@pytest.mark.parametrize("name", [name for name in WRITTEN if name not in ("changelog.md", "user-guide.md")])
def test_the_settings_that_are_named_are_ones_that_there_are(name: str) -> None:
    spans: list[str] = re.findall(rf"`((?:{SECTIONS})\.[a-z_.]+)`", WRITTEN[name])

    assert set(spans) - {"runs.db"} <= set(names(Settings))


def test_the_first_session_prints_what_it_says(running: Process) -> None:
    (session,) = sessions("getting-started.md")

    for asked, said in session:
        done = shell(asked.replace(ADDRESS, running.url), FORGE_PROXY_URL=running.url)
        assert_printed(said.replace(ADDRESS, running.url), done)


def test_the_first_request_gets_a_guarded_tool_call(running: Process) -> None:
    (curl,) = [block for block in blocks(PAGES["getting-started.md"], "sh") if block.startswith("curl ")]

    done = shell(curl.replace(ADDRESS, running.url))

    call = json.loads(done.stdout)["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (call["name"], set(json.loads(call["arguments"]))) == ("get_weather", {"city", "days"})


@pytest.mark.parametrize("page", ["runs.md", "jobs.md"])
def test_the_session_of_runs_and_jobs_prints_what_it_says(page: str, running: Process) -> None:
    (session,) = sessions(page)

    for asked, said in session:
        assert_printed(said, shell(asked, FORGE_PROXY_URL=running.url))


@pytest.mark.parametrize("page", ["runs.md", "clients/openai-python.md"])
def test_the_python_example_prints_what_it_says(page: str, running: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = blocks(PAGES[page], "python")
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(example.replace(ADDRESS, running.url), page, "exec"), {})

    assert printed.getvalue() == printed_by(example) != ""


def test_what_rescue_is_said_to_print_is_what_it_prints(tmp_path: Path) -> None:
    for session in sessions("troubleshooting.md"):
        for asked, said in session:
            done = shell(asked, cwd=tmp_path)
            assert (done.stdout.rstrip("\n"), done.stderr) == (said.rstrip("\n"), "")


def test_what_check_is_said_to_print_is_what_it_prints(tmp_path: Path) -> None:
    """Before a llama.cpp whose model is the test model, and has another name and window."""
    port = str(free_port())
    with llama_cpp("none") as url:
        env = {
            "FORGE_PROXY_SERVER__PORT": port,
            "FORGE_PROXY_BACKEND__API_KEY": "none",
            "XDG_STATE_HOME": str(tmp_path),
        }
        for session in sessions("model-servers.md"):
            for asked, said in session:
                for_us = said.replace("http://127.0.0.1:8080", url).replace(":8081", f":{port}")
                for_us = for_us.replace("your-model (32768", "tiny-tools (2048").replace("your-model", "tiny-tools")
                for_us = for_us.replace("required yes", "required …")  # the test model is not always the same
                done = shell(asked.replace("http://127.0.0.1:8080", url), ROOT, **env)
                done.stdout = re.sub("window      too small.*\n", "", done.stdout)  # the page's window is larger
                assert_printed(for_us, done)


def test_the_errors_are_those_that_there_are() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", PAGES["http-api.md"], re.MULTILINE)
    documented = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    raised = {(status, code) for status, _, code in ERROR_TABLE.values() if code is not None}
    assert raised <= documented
    assert documented - raised == {(400, "invalid_function_parameters"), (502, "backend_refused_key")}


def test_the_endpoints_of_the_admin_api_are_those_that_there_are() -> None:
    documented = set(re.findall(r"`([A-Z]+ /admin/v1/[\w/{}-]+)`", PAGES["http-api.md"]))

    routes = set(re.findall(r"^## `([A-Z]+ /admin/\S+)`", PAGES["http-routes.md"], re.MULTILINE))
    assert documented == {route for route in routes if "/text-answers" not in route}  # a former name, until 0.3


def test_the_minimum_windows_are_those_that_connect_names() -> None:
    rows = re.findall(r"^\| ([\w ]+?) \d[\d.]* \| \d+ kB \| ([\d,]+) \|$", PAGES["clients/index.md"], re.MULTILINE)
    called = {"Claude Code": "claude"}

    assert {called.get(name, name.lower()): int(tokens.replace(",", "")) for name, tokens in rows} == MINIMUM_WINDOW


def test_the_documented_settings_are_yaml_with_comments_on_each() -> None:
    assert set(yaml.safe_load((ROOT / "config" / "forge-proxy.yaml").read_text())) == set(Settings.model_fields)


def test_the_layers_are_those_that_the_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "each layer imports only those below it")
    page = PAGES["architecture.md"]

    assert "\n".join(layers) in page
    packages = {name for layer in layers for name in layer.split(" | ")} - {"_version"}
    assert packages <= set(re.findall(r"`(\w+)`", page.partition("| package | content |")[2].partition("\n\n")[0]))
