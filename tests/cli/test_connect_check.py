"""`forge-proxy connect --check`: one question through the configuration that a client has, to a fake server."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.app import app
from forge_proxy.cli.connect.check import CheckFailed
from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.setups import DaemonAddress
from forge_proxy.cli.connect.write import write
from forge_proxy.cli.connect.written import IncompleteConfig

KEY = "sk-alice"
USAGE = {"prompt_tokens": 12, "completion_tokens": 3}
TOKENS = {"input_tokens": 12, "output_tokens": 3}
REPLIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"choices": [{"message": {"content": "ready"}}], "usage": USAGE},
    "/v1/responses": {
        "object": "response",
        "output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "ready"}]}],
        "usage": TOKENS,
    },
    "/v1/messages": {
        "type": "message",
        "content": [{"type": "text", "text": "ready"}],
        "usage": {"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 3},
    },
    "/api/chat": {"message": {"content": "ready"}, "prompt_eval_count": 12, "eval_count": 3},
    "/v1/models": {"data": [{"id": "listed"}]},
}


@dataclass
class Server:
    """The received requests, and the status and body of the next responses if they are not those of a daemon."""

    url: str
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list[Any])
    status: int = 200
    body: bytes | None = None


@pytest.fixture
def server() -> Generator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.asked.append((self.path, headers, json.loads(content or b"{}")))
            body = fake.body if fake.body is not None else json.dumps(REPLIES[self.path]).encode()
            self.send_response(fake.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        fake = Server(f"http://127.0.0.1:{http.server_port}")
        serving = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield fake
        finally:
            http.shutdown()
            serving.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(client: str, url: str, home: Path, monkeypatch: pytest.MonkeyPatch, model: str = "coder") -> None:
    """Write the files of a client and export its variables, as its user does."""
    setup = CLIENTS[client](DaemonAddress(url, KEY, model, 32_768))
    for file in setup.files:
        write(file, home)
    for name, value in setup.variables.items():
        monkeypatch.setenv(name, value)


def checked(client: str) -> str:
    """What is printed. Raises what the command raises."""
    done = CliRunner().invoke(app, ["connect", client, "--check"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


ROUTES = {"codex": "/v1/responses", "claude": "/v1/messages"}


@pytest.mark.parametrize("client", [client for client in CLIENTS if client not in ("jan", "open-webui")])
def test_the_question_goes_where_the_client_would_send_it(
    client: str, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(client, server.url, home, monkeypatch)

    printed = checked(client)

    ((path, headers, body),) = server.asked
    assert path == ROUTES.get(client, "/v1/chat/completions")
    assert (headers["authorization"], body["model"]) == (f"Bearer {KEY}", "coder")
    assert f"POST {server.url}{path}, model coder, with a key" in printed
    assert "ready (12 + 3 tokens, " in printed


def test_a_client_without_a_configured_model_is_checked_with_the_first_one(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("open-webui", server.url, home, monkeypatch)

    checked("open-webui")

    assert [path for path, _, _ in server.asked] == ["/v1/models", "/v1/chat/completions"]
    assert server.asked[1][2]["model"] == "listed"


def test_a_goose_provider_of_ollama_is_checked_over_the_api_of_ollama(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("goose", server.url, home, monkeypatch)
    file = home / ".config/goose/custom_providers/forge.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "engine": "ollama", "base_url": server.url}))

    assert "ready (12 + 3 tokens, " in checked("goose")
    assert server.asked[0][0] == "/api/chat"
    assert server.asked[0][2]["stream"] is False


def test_the_file_that_the_user_edited_since_is_the_one_that_counts(
    server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("codex", "http://127.0.0.1:1", home, monkeypatch)
    file = home / ".codex/config.toml"
    file.write_text(file.read_text().replace("http://127.0.0.1:1", server.url).replace('"coder"', '"other"'))

    assert "model other" in checked("codex")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            {"error": {"message": "no such key"}},
            "status 401: no such key; write another key: .* --write --key KEY",
        ),
        (404, {"error": {"message": "no model coder"}}, "status 404: no model coder; the daemon serves no such"),
        (503, {"error": "loading"}, "status 503: loading$"),
        (500, None, "status 500: no message"),
        (200, {"object": "list"}, "not one of this API"),
        (200, None, "not one of this API"),
    ],
)
def test_what_is_wrong_is_reported(
    status: int,
    body: object,
    message: str,
    server: Server,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure("codex", server.url, home, monkeypatch)
    server.status, server.body = status, b"<html>" if body is None else json.dumps(body).encode()

    with pytest.raises(CheckFailed, match=f"^POST {server.url}/v1/responses: .*{message}"):
        checked("codex")


def test_a_server_that_is_not_there_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("claude", "http://127.0.0.1:1", home, monkeypatch)

    with pytest.raises(CheckFailed, match=r"127\.0\.0\.1:1/v1/messages: no response \(.*refused.*forge-proxy serve"):
        checked("claude")


def test_a_reply_without_text_is_a_reply(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("opencode", server.url, home, monkeypatch)
    server.body = b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}'

    assert "no text, which is normal for a model that reasons first (" in checked("opencode")


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("opencode", r"opencode\.json does not exist; forge-proxy connect opencode sets it \(--write\)"),
        ("env", r"variable OPENAI_BASE_URL is not set, .*eval"),
        ("jan", "the settings of jan cannot be read from here: look at Settings > Model Providers"),
    ],
)
def test_a_client_that_is_not_configured_is_reported(
    client: str, message: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    with pytest.raises(IncompleteConfig, match=message):
        checked(client)


@pytest.mark.parametrize(
    ("client", "file", "old", "new", "message"),
    [
        ("opencode", ".config/opencode/opencode.json", '"baseURL"', '"url"', r"provider\.forge\.options\.baseURL is"),
        ("opencode", ".config/opencode/opencode.json", "forge/coder", "mine/x", r"provider\.mine\.options\.baseURL is"),
        ("continue", ".continue/config.yaml", "name: forge-proxy", "name: x", "there is no entry named forge-proxy"),
        ("goose", ".config/goose/config.yaml", "forge", "ollama", "GOOSE_PROVIDER is ollama, so goose does not use"),
        ("goose", ".config/goose/custom_providers/forge.json", "/chat/completions", "", "is not the URL of chat"),
        ("vscode", ".config/Code/User/chatLanguageModels.json", '"models"', '"m"', "models is missing"),
        ("roo", ".config/Code/User/settings.json", "autoImport", "import", "autoImportSettingsPath is missing"),
    ],
)
def test_a_configuration_that_leads_nowhere_is_reported(
    client: str, file: str, old: str, new: str, message: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    configure(client, "http://127.0.0.1:1", home, monkeypatch)
    path = home / file
    path.write_text(path.read_text().replace(old, new))

    with pytest.raises(IncompleteConfig, match=message):
        checked(client)


def test_a_variable_that_the_client_needs_and_lacks_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("zed", "http://127.0.0.1:1", home, monkeypatch)
    monkeypatch.delenv("FORGE_API_KEY")

    with pytest.raises(IncompleteConfig, match="environment variable FORGE_API_KEY is not set"):
        checked("zed")
