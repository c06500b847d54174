"""The settings file: which one is read, what it may contain, and its one-line errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_proxy.settings import SettingsError, load
from forge_proxy.settings.file import find_file, read_file


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "config.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def fault_of(file: Path) -> str:
    with pytest.raises(SettingsError) as raised:
        read_file(file, {})
    said = str(raised.value)
    assert said.startswith(f"{file}: ")
    assert len(said.splitlines()) == 1
    return said.removeprefix(f"{file}: ")


def test_the_named_file_precedes_the_variable_and_the_default_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "forge-proxy" / "config.yaml"
    usual.parent.mkdir()
    usual.write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FORGE_PROXY_CONFIG", "told.yaml")

    assert find_file(Path("named.yaml")) == Path("named.yaml")
    assert find_file(None) == Path("told.yaml")
    monkeypatch.delenv("FORGE_PROXY_CONFIG")
    assert find_file(None) == usual
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    assert find_file(None) is None


def test_without_xdg_config_home_the_home_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tmp_path / ".config" / "forge-proxy" / "config.yaml"
    usual.parent.mkdir(parents=True)
    usual.write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")

    assert find_file(None) == usual
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert find_file(None) == usual


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x00\x01\x7fELF", "a binary file"),
        (b"GGUF\xff\xfe\x80", "a binary file"),
        (b"# " + b"x" * 2_000_000, "larger than 1 MB"),
        ("server:\n\tport: 1", "line 2, column 1: not YAML: a tab; indent with spaces"),
        ("server: [", "line 1, column 10: not YAML"),
        ("server:\n  port: 1\n  host: x\n  port: 2\n", "line 4, column 3: port is set twice"),
        ("server: {port: 1}\nserver: {port: 2}\n", "line 2, column 1: server is set twice"),
        ("[" * 700, "nested too deeply"),
        ("a: &a [*a]", "too many or too deeply nested values"),
        ("\n".join([f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "a0: &a0 [x]" for n in range(10)]),
         "too many or too deeply nested values"),
        ("- server", "expected sections"),
        ("when: 2026-99-99", "not YAML"),
        ("x: !!python/object:os.system {}", "line 1, column 4: not YAML"),
    ],
)  # fmt: skip
def test_an_invalid_file_is_a_one_line_error(tmp_path: Path, content: str | bytes, fault: str) -> None:
    assert fault_of(written(tmp_path, content)).startswith(fault)


def test_a_folder_and_a_missing_file_are_errors_with_the_path(tmp_path: Path) -> None:
    assert "is a folder" in fault_of(tmp_path)
    assert fault_of(tmp_path / "none.yaml") == "No such file or directory"


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, "")).sections == {}


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    file = written(tmp_path, "models:\n  a: &a {context: 4096}\n  b: {<<: *a, context: 512}\n  c: {<<: *a}\n")

    assert read_file(file).sections["models"] == {"a": {"context": 4096}, "b": {"context": 512}, "c": {"context": 4096}}


def test_environment_variables_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1")
    monkeypatch.setenv("MY_PORT", "9000")
    file = written(
        tmp_path,
        "server:\n  port: ${env.MY_PORT}\n  api_keys: ['${env.MY_KEY}']\nbackend:\n  model: a-$${x}-${env.MY_KEY}\n",
    )

    settings = load(file, {})

    assert settings.server.port == 9000
    assert [key.get_secret_value() for key in settings.server.api_keys] == ["sk-1"]
    assert settings.backend.model == "a-${x}-sk-1"


@pytest.mark.parametrize(
    ("reference", "fault"),
    [
        (
            "${env.NONE_SUCH}",
            "server.api_keys.0: ${env.NONE_SUCH}: the environment variable NONE_SUCH is not set",
        ),
        (
            "${MY_KEY}",
            "server.api_keys.0: ${MY_KEY} is not expanded here; write ${env.MY_KEY} for the environment variable",
        ),
        ("${sk-very-secret}", "server.api_keys.0: ${NAME} is not expanded here"),
    ],
)
def test_an_unset_variable_is_an_error_with_setting_and_variable(tmp_path: Path, reference: str, fault: str) -> None:
    assert fault_of(written(tmp_path, f"server:\n  api_keys: ['{reference}']\n")).startswith(fault)


def test_an_invalid_value_of_a_variable_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PORT", "sk-secret")
    file = written(tmp_path, "server: {port: '${env.MY_PORT}'}")

    with pytest.raises(SettingsError) as raised:
        load(file, {})

    assert "server.port: " in str(raised.value)
    assert "${env.MY_PORT}" in str(raised.value)
    assert "sk-secret" not in str(raised.value)


@pytest.mark.parametrize("value", ["finish,!done", "finish !done"])
def test_patterns_of_tools_may_come_from_a_variable(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_GUARDRAILS__TERMINAL_TOOLS", value)

    assert load(None, {}).guardrails.terminal_tools == ("finish", "!done")
