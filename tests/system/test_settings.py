"""Invalid settings: one line for each error, an exit code, no traceback. Valid settings: their precedence."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from forge_proxy import __version__
from forge_proxy.api.server import address
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from tests.fakes.processes import (
    Ended,
    closed_port,
    command,
    command_in_new_interpreter,
    daemon,
    model_server,
    ollama_server,
)


def faults(ended: Ended) -> list[str]:
    """Return the message on stderr, which has only log lines and lines of the command."""
    lines = [line for line in ended.err.splitlines() if not line.startswith('{"')]
    assert lines
    assert all(line.startswith("forge-proxy: ") for line in lines), ended.err
    return [line.removeprefix("forge-proxy: ") for line in lines]


def written(folder: Path, text: str) -> str:
    file = folder / "forge-proxy.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("server: {prot: 9000}", "server.prot: no such setting; did you mean server.port?"),
        ("sever: {port: 9000}", "sever: no such setting; did you mean server?"),
        (
            "backend: {llama_server: {slot: 3}}",
            "backend.llama_server.slot: no such setting; did you mean backend.llama_server.slots?",
        ),
        ("guardrails: {enabled: {validat: true}}", "did you mean guardrails.enabled.validate?"),
        ("server: {port: many}", "server.port: "),
        ("server: {port: 70000}", "server.port: "),
        ("backend: embedded", "backend: expected a section with settings in it"),
        ("backend: {kind: lama-server}", "backend.kind: "),
        ("backend: {slots: many}", "backend.slots: "),
        ("backend: {kind: vllm}", "backend.kind: vllm is not a kind of backend; use openai with --backend-url"),
        ("guardrails: {enabled: {rescue: of}}", "guardrails.enabled.rescue: expected on or off (got 'of')"),
        ("backend: {slots: 0}", "backend.slots: "),
        ("backend: {url: 'localhost:8080'}", "backend.url: expected a URL such as http://127.0.0.1:8080"),
        ("just words", "expected sections such as 'server:'"),
        ("server: [", "not YAML"),
    ],
)
def test_a_wrong_setting_in_the_file_is_named(tmp_path: Path, yaml: str, said: str) -> None:
    file = written(tmp_path, yaml)

    ended = command("serve", "--config", file)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert said in fault
    assert fault.startswith(f"{file}: ")


def test_each_wrong_setting_has_its_own_line(tmp_path: Path) -> None:
    file = written(tmp_path, "server: {port: many, hots: x}\nlog: {level: loud}")

    ended = command("serve", "--config", file)

    assert ended.code == 2
    named = sorted(fault.removeprefix(f"{file}: ").split(":")[0] for fault in faults(ended))
    assert named == ["log.level", "server.hots", "server.port"]


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--port", "70000"], {}),
        ([], {"FORGE_PROXY_SERVER__PORT": "70000"}),
        ([], {"FORGE_PROXY_SERVER": '{"port": 70000}'}),
    ],
    ids=["option", "variable", "section's variable"],
)
def test_the_file_is_not_named_for_settings_from_elsewhere(
    tmp_path: Path, options: list[str], env: dict[str, str]
) -> None:
    ended = command("serve", "--config", written(tmp_path, "server: {port: 8101}"), *options, env=env)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith("server.port: ")


def test_an_unusable_backend_is_reported_with_the_file_that_names_it(tmp_path: Path) -> None:
    file = written(tmp_path, "backend: {kind: ollama, gguf: a.gguf}")

    ended = command("serve", "--config", file)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault.startswith(f"{file}: backend.gguf is for a server that forge-proxy starts")


@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_is_printed(word: str) -> None:
    ended = command(word)

    assert (ended.code, ended.out, ended.err) == (0, f"{__version__}\n", "")


def test_a_wrong_key_is_not_shown(tmp_path: Path) -> None:
    ended = command("serve", "--config", written(tmp_path, "backend: {api_key: [hunter2]}"))

    assert ended.code == 2
    assert "backend.api_key" in ended.err
    assert "hunter2" not in ended.err


def test_a_missing_file_is_named() -> None:
    ended = command("serve", "--config", "nowhere.yaml")

    assert (ended.code, faults(ended)) == (2, ["nowhere.yaml: No such file or directory"])


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (
            "FORGE_PROXY_SERVER__PROT",
            "1",
            "FORGE_PROXY_SERVER__PROT: no such setting; did you mean FORGE_PROXY_SERVER__PORT?",
        ),
        ("FORGE_PROXY_PORT", "1", "FORGE_PROXY_PORT: no such setting"),
        ("FORGE_PROXY_SERVER__PORT", "many", "server.port: "),
        ("FORGE_PROXY_SERVER", "words", "FORGE_PROXY_SERVER: expected a JSON object"),
        ("FORGE_PROXY_MODELS", "coder", "FORGE_PROXY_MODELS: expected a JSON object"),
        ("FORGE_PROXY_BACKEND__LLAMA_SERVER__EXTRA", "--mlock", "FORGE_PROXY_BACKEND__LLAMA_SERVER__EXTRA: expected"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, said: str) -> None:
    ended = command("serve", env={variable: value})

    assert ended.code == 2
    (fault,) = faults(ended)
    assert said in fault


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend-url", "http://127.0.0.1:9", "--gguf", "a.gguf"], "exclude each other"),
        (["--backend", "embedded", "--backend-url", "http://127.0.0.1:9"], "backend.url names a running server"),
        (["--backend", "ollama", "--gguf", "a.gguf"], "backend.gguf is for a server that forge-proxy starts"),
        (["--backend", "openai"], "needs --backend-url"),
        (["--backend", "anthropic"], "needs backend.api_key"),
        (["--port", "70000"], "server.port"),
        (["--ctx", "4096", "--backend-url", "http://127.0.0.1:9"], "--ctx is for a llama.cpp server that forge-proxy"),
        (
            ["--gguf", str(TINY_MODEL), "--llama-server", "/bin/ls"],
            "/bin/ls is not a llama-server: its --version prints 'ls",
        ),
        (["--backend-url", "localhost:8080"], "backend.url: expected a URL such as http://127.0.0.1:8080"),
        (["--backend-url", "http://127.0.0.1:80800"], "backend.url: expected a URL such as http://127.0.0.1:8080"),
    ],
)
def test_invalid_or_contradicting_options_are_reported(options: list[str], said: str) -> None:
    ended = command("serve", *options)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert said in fault


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend", "vllm"], "vllm is not a kind of backend; use openai with --backend-url"),
        (["--backend", "lama"], "'lama'"),
        (["--port", "many"], "--port"),
        (["--prot", "1"], "--prot"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(options: list[str], said: str) -> None:
    ended = command("serve", *options)

    assert ended.code == 2
    assert said in " ".join(ended.err.replace("│", " ").split())  # the terminal's frame may wrap the message
    assert "Traceback" not in ended.err


def test_a_model_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = command("serve", "--port", "0", "--gguf", "missing.gguf", cwd=tmp_path)

    assert ended.code == 2
    assert faults(ended) == ["backend.gguf: file not found: missing.gguf"]


def test_a_file_that_is_not_a_model_is_named_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "poem.gguf"
    file.write_text("Roses are red")

    ended = command("serve", "--port", "0", "--gguf", str(file))

    assert ended.code == 2
    (fault,) = faults(ended)
    assert str(file) in fault
    assert "is not a GGUF model" in fault


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = command("serve", "--backend", "embedded", "--port", str(port))

    assert ended.code == 1
    assert faults(ended) == [
        f"port {port} on 127.0.0.1 is already in use; stop the program that listens there or choose another with --port"
    ]


@pytest.mark.parametrize(
    ("yaml", "variable", "option", "port"),
    [
        (False, False, False, 8081),
        (True, False, False, 8101),
        (True, True, False, 8102),
        (True, True, True, 8103),
    ],
)
def test_options_precede_variables_precede_the_file_precedes_defaults(
    tmp_path: Path, yaml: bool, variable: bool, option: bool, port: int
) -> None:
    config = written(tmp_path, "server: {port: 8101, drain_seconds: 3}" if yaml else "")
    options = ["--port", "8103"] if option else []
    env = {"FORGE_PROXY_SERVER__PORT": "8102"} if variable else {}

    with closed_port() as closed:
        url = f"http://127.0.0.1:{closed}"
        ended = command("check", "--config", config, "--backend-url", url, *options, env=env)

    assert str(port) in ended.out.splitlines()[0]


def test_an_option_that_names_a_backend_replaces_the_files(tmp_path: Path) -> None:
    config = written(tmp_path, "backend: {gguf: model.gguf}")

    with closed_port() as closed:
        ended = command("check", "--config", config, "--backend-url", f"http://127.0.0.1:{closed}")

    assert f"openai at http://127.0.0.1:{closed}" in ended.out


def test_check_prints_what_would_be_used() -> None:
    ended = command("check", "--backend", "embedded", "--port", "0")

    assert ended.code == 0
    rows = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    names = ["listen", "guardrails", "backend", "reason", "health", "models", "window", "template", "result"]
    assert list(rows) == names
    assert rows["template"].strip() == repr(
        '<tool_call>\n{"name": "NAME", "arguments": {"KEY": "VALUE"}}\n</tool_call>'
    )
    assert rows["backend"].startswith("embedded at http://127.0.0.1:")
    assert rows["health"].strip() == "ok"
    assert rows["models"].strip() == "tiny-tools (2048 tokens)"
    assert rows["result"].strip() == "ready"
    assert ended.err == ""


def test_check_fails_with_the_reason_if_nothing_answers() -> None:
    with closed_port() as closed:
        url = f"http://127.0.0.1:{closed}"
        ended = command("check", "--backend-url", url, "--port", "0")

    assert ended.code == 1
    rows = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    assert url in rows["health"]
    assert "connection refused" in rows["health"]
    assert rows["result"].strip() == "not ready"


def test_check_fails_if_the_port_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        ended = command("check", "--backend", "embedded", "--port", str(port))

    assert ended.code == 1
    assert f"port {port} on 127.0.0.1 is already in use" in ended.out


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:80/v1"), ("::1", "http://[::1]:80/v1")])
def test_the_printed_address_is_a_url(host: str, url: str) -> None:
    assert address(host, 80) == url


def test_the_demo_makes_at_least_as_many_valid_calls_guarded_as_raw() -> None:
    ended = command_in_new_interpreter("demo", env={"FORGE_PROXY_BACKEND__URL": "http://127.0.0.1:9"})

    assert ended.code == 0, ended.err
    count = next(line for line in ended.out.splitlines() if line.startswith("valid tool calls"))
    raw, guarded = (int(part.split()[-1]) for part in count.split(":")[1].split(","))
    assert guarded >= raw


def test_check_is_not_ready_if_the_server_requires_a_key_and_names_the_setting() -> None:
    with model_server() as server:
        ended = command("check", "--backend-url", f"{server.url}/locked", "--port", "0")

    assert ended.code == 1
    assert "backend.api_key" in ended.out


def test_the_full_endpoint_is_accepted_as_the_base_url() -> None:
    with model_server() as server, daemon("--backend-url", server.url) as first:
        ended = command("check", "--backend-url", f"{first.url}/v1/chat/completions", "--port", "0")

    assert ended.code == 1
    assert "is a forge-proxy itself" in ended.out


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("server: {api_keys_file: none.txt}", "server.api_keys_file none.txt: No such file or directory"),
        ("server: {admin_keys_file: none.txt}", "server.admin_keys_file none.txt: No such file or directory"),
        ("backend: {chat_template: none.jinja}", "backend.chat_template none.jinja: No such file or directory"),
        ("server: {host: 0.0.0.0}", "server.host 0.0.0.0 is reached by other machines, and clients need no key"),
        ("backend: {kind: openai}", "the openai backend needs --backend-url"),
        ("server: 9000", "server: expected a section with settings in it"),
        ("backend: {llama_server: yes}", "backend.llama_server: expected a section with settings in it"),
        ("server: {port: 0, port: 1}", "line 1, column 19: port is set twice"),
        ("server: {api_keys: ['${KEY}']}", "server.api_keys.0: ${KEY} is not expanded here; write ${env.KEY}"),
        ("server: {api_keys: ['${env.NO_KEY}']}", "server.api_keys.0: ${env.NO_KEY}: the environment variable NO_KEY"),
    ],
)
def test_config_check_rejects_what_serve_rejects_with_the_same_message(tmp_path: Path, yaml: str, said: str) -> None:
    file = written(tmp_path, yaml)

    served, checked = command("serve", "--config", file), command("config", "check", "--config", file)

    assert (served.code, checked.code) == (2, 2)
    assert said in served.err
    assert faults(checked)[0].removeprefix(f"{file}: ") == faults(served)[0].removeprefix(f"{file}: ")


def test_the_file_that_the_environment_names_is_read_and_logged(tmp_path: Path) -> None:
    file = written(tmp_path, "server: {drain_seconds: 3}")
    with model_server() as server, daemon("--backend-url", server.url, env={"FORGE_PROXY_CONFIG": file}) as process:
        told = process.wait_for("settings")
        process.send_signal(signal.SIGTERM)
        stopping = process.wait_for("stopping")

    assert told["file"] == file
    assert stopping["drain_seconds"] == stopping["answers_may_take"] == 3


def test_a_backend_kind_that_does_not_match_the_server_is_rejected() -> None:
    with ollama_server("qwen3") as server:
        ended = command("serve", "--port", "0", "--backend", "llama-server", "--backend-url", server.url)

    assert ended.code == 2
    (fault,) = faults(ended)
    assert fault == (
        f"backend.kind is llama-server, but a server of kind ollama answers at {server.url}; use --backend ollama"
    )


def test_the_error_for_start_suggests_serve() -> None:
    ended = command("start", "--port", "0")

    assert (ended.code, faults(ended)) == (2, ["no such command: start; run the daemon with `forge-proxy serve`"])
