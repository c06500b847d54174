"""The `forge-proxy connect` command, with a fake daemon."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from forge_proxy.cli.connect.address import default_url
from forge_proxy.cli.connect.write import CannotWrite
from forge_proxy.cli.rescue import InputError
from forge_proxy.core.errors import ForgeError

WINDOWS = {"large": 32_768, "small": 2048}
KEY = "sk-user"


@contextmanager
def stand_in(
    windows: dict[str, int], *, routes: tuple[str, ...] = ("/v1/chat/completions",), key: str | None = None
) -> Generator[str]:
    """A daemon's list of models and its description, at the URL that is yielded."""
    models = {"data": [{"id": name, "max_model_len": window} for name, window in windows.items()]}
    pages: dict[str, Any] = {
        "/v1/models": models,
        "/openapi.json": {"paths": {route: {} for route in routes}},
        "/health": {},
    }

    class Daemon(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = (
                key is None
                or self.path in ("/openapi.json", "/health")
                or self.headers["authorization"] == f"Bearer {key}"
            )
            body = json.dumps(pages[self.path] if allowed else {"error": {"message": "a key"}}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-forge-proxy", "1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Daemon) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("FORGE_PROXY_URL", "FORGE_PROXY_KEY", "FORGE_PORT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*words: str) -> tuple[str, str]:
    """What is printed on stdout and stderr. Raises what the command raises."""
    done = CliRunner().invoke(app, ["connect", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


@pytest.mark.parametrize(("client", "route"), [("claude", "/v1/messages"), ("codex", "/v1/responses")])
def test_a_client_whose_route_is_not_served_is_not_configured(client: str, route: str, home: Path) -> None:
    with stand_in({"large": 32_768}) as url:
        printed, warned = typed(client, "--url", url)
        with pytest.raises(CannotWrite, match=f"nothing was written: .* does not serve {route}.*later.*--force"):
            typed(client, "--url", url, "--write")

    assert "large" in printed
    assert f"does not serve {route}" in warned
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("client", "file"), [("claude", ".claude/settings.json"), ("codex", ".codex/config.toml")])
def test_force_writes_the_configuration_and_undo_restores_the_old_one(client: str, file: str, home: Path) -> None:
    path = home / file
    path.parent.mkdir()
    path.write_text(before := "" if client == "codex" else '{"model": "opus"} // mine\n')

    with stand_in({"large": 32_768}) as url:
        written, warned = typed(client, "--url", url, "--write", "--force")
    assert "large" in path.read_text()
    undone, _ = typed(client, "--undo")  # nothing answers any more, and nothing has to

    assert "(--undo restores it)" in written
    assert "does not serve" in warned
    assert undone == f"restored {path}\n"
    assert path.read_text() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_no_force_is_needed_if_the_daemon_serves_the_route(home: Path) -> None:
    with stand_in({"large": 32_768}, routes=("/v1/messages",)) as url:
        _, warned = typed("claude", "--url", url, "--write")

    assert "404" not in warned
    assert (home / ".claude/settings.json").exists()


@pytest.mark.parametrize(("client", "files"), [("claude", 1), ("aider", 2)])
def test_undo_removes_the_files_that_write_created(client: str, files: int, home: Path) -> None:
    with stand_in({"large": 32_768}) as url:
        typed(client, "--url", url, "--write", "--force")
    undone, _ = typed(client, "--undo")

    assert undone.count("connect --write had created it") == files
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--undo", "--write"], "--undo and --write exclude each other"),
        (["--undo", "--force"], "--force is for --write only"),
        (["--force"], "--force is for --write only; without --write, connect prints the configuration"),
        (["--undo", "--check"], "--undo and --check exclude each other"),
    ],
)
def test_contradictory_options_are_errors(options: list[str], message: str, home: Path) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        typed("opencode", *options)


def test_what_no_file_can_hold_is_printed_for_the_settings_dialog(home: Path) -> None:
    with stand_in({"large": 32_768}) as url:
        printed, warned = typed("jan", "--url", url, "--key", KEY)
        with pytest.raises(CannotWrite, match="no file is written for jan: it stores its settings in an internal"):
            typed("jan", "--url", url, "--write")
        variables, _ = typed("openhands", "--url", url)

    assert printed.splitlines() == [
        "# enter in Settings > Model Providers > Add Provider:",
        "#   API format: OpenAI-compatible",
        f"#   Base URL: {url}/v1",
        f"#   API Key: {KEY}",
        "#   Model: large",
    ]
    assert "no file is written" in warned
    assert f"export LLM_BASE_URL={url}/v1\n" in variables
    assert "# or enter in Settings > LLM" in variables
    assert list(home.iterdir()) == []


def test_the_small_model_is_one_of_the_daemons(home: Path) -> None:
    with stand_in(WINDOWS) as url:
        printed, _ = typed("claude", "--url", url, "--model", "large", "--small-model", "small")
        with pytest.raises(ForgeError, match="no model 'tiny' at"):
            typed("claude", "--url", url, "--model", "large", "--small-model", "tiny")
        with pytest.raises(InputError, match="--small-model is for opencode and claude only"):
            typed("codex", "--url", url, "--model", "large", "--small-model", "small")

    assert json.loads(printed)["env"]["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "small"


def test_undo_without_a_copy_is_an_error(home: Path) -> None:
    with pytest.raises(CannotWrite, match=r"no copy of ~/\.codex/config\.toml to restore"):
        typed("codex", "--undo")
    with pytest.raises(CannotWrite, match="env has no configuration file"):
        typed("env", "--undo")


def test_opencode_gets_all_models_and_other_clients_require_a_choice(home: Path) -> None:
    with stand_in(WINDOWS) as url:
        printed, warned = typed("opencode", "--url", url)
        chosen, _ = typed("opencode", "--url", url, "--model", "small")
        with pytest.raises(ForgeError, match="choose a model with --model; the daemon serves: large, small"):
            typed("aider", "--url", url)

    models = json.loads(printed)["provider"]["forge"]["models"]
    assert {name: model["limit"]["context"] for name, model in models.items()} == WINDOWS
    assert (json.loads(printed)["model"], json.loads(chosen)["model"]) == ("forge/large", "forge/small")
    assert set(json.loads(chosen)["provider"]["forge"]["models"]) == set(WINDOWS)
    assert "large is the default model" in warned


@pytest.mark.parametrize(
    ("client", "model", "small"),
    [("opencode", "small", True), ("opencode", "large", False), ("aider", "small", False), ("env", "small", False)],
)
def test_a_window_too_small_for_the_client_is_reported(client: str, model: str, small: bool, home: Path) -> None:
    with stand_in(WINDOWS) as url:
        _, warned = typed(client, "--url", url, "--model", model)

    assert ("2,048 tokens is too small for opencode, which needs about 15,000" in warned) is small


def test_the_key_of_the_environment_is_used_if_a_key_is_needed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_KEY", KEY)

    with stand_in({"large": 32_768}, key=KEY) as url:
        needed, _ = typed("env", "--url", url)
    with stand_in({"large": 32_768}) as url:
        not_needed, _ = typed("env", "--url", url)
        given, _ = typed("env", "--url", url, "--key", KEY)

    assert f"OPENAI_API_KEY={KEY}\n" in needed
    assert "OPENAI_API_KEY=none\n" in not_needed  # it may be an admin key
    assert f"OPENAI_API_KEY={KEY}\n" in given


def test_the_port_published_by_compose_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in({"large": 32_768}) as url:
        monkeypatch.setenv("FORGE_PORT", url.rpartition(":")[2])
        printed, _ = typed("env")

    assert f"OPENAI_BASE_URL={url}/v1\n" in printed


@pytest.mark.parametrize(
    ("compose", "env", "port"),
    [
        ('ports: ["127.0.0.1:${FORGE_PORT:-8081}:8081"]', "# ours\nFORGE_PORT=9123\n", 9123),
        ('ports: ["127.0.0.1:${FORGE_PORT:-8081}:8081"]', "MODEL=a\n", 8081),
        ("services: {}", "FORGE_PORT=9123\n", 8081),
        (None, "FORGE_PORT=9123\n", 8081),
        ('ports: ["${FORGE_PORT}:8081"]', "FORGE_PORT=http://other\n", 8081),
    ],
)
def test_the_port_is_read_from_the_env_file_of_compose(compose: str | None, env: str, port: int, home: Path) -> None:
    if compose is not None:
        (home / "compose.yaml").write_text(compose)
    (home / ".env").write_text(env)

    assert default_url(home) == f"http://127.0.0.1:{port}"


def test_lost_yaml_comments_are_reported_with_the_copy(home: Path) -> None:
    (home / ".aider.conf.yml").write_text("# mine\ndark-mode: true\n")

    with stand_in({"large": 32_768}) as url:
        _, warned = typed("aider", "--url", url, "--write")

    assert "comments of" in warned
    assert "copy only" in warned
