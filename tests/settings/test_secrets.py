"""No message, traceback, dump or representation of the settings contains a secret, valid or malformed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from forge_proxy.cli.options import collect_overrides
from forge_proxy.core.errors import ForgeError
from forge_proxy.settings import Settings, SettingsError, build_settings, load
from forge_proxy.settings.masking import mask_secrets
from forge_proxy.settings.startup_checks import refuse_unusable
from tests.properties import sample

SECRET = "hunter2-Zq9"
WORKING: list[dict[str, Any]] = [
    {"server": {"api_keys": [SECRET]}},
    {"server": {"admin_keys": [SECRET]}},
    {"backend": {"api_key": SECRET}},
    {"backend": {"url": f"http://user:{SECRET}@127.0.0.1:9/v1"}},
    {"backend": {"url": f"http://127.0.0.1:9/v1?key={SECRET}"}},
    {"backend": {"gguf": "a.gguf", "llama_server": {"extra": ["--hf-token", SECRET, "--my-key", SECRET]}}},
    {"backend": {"gguf": "a.gguf", "llama_server": {"extra": [f"--hf-token={SECRET}"]}}},
    {"models": {"m": {"gguf": "a.gguf", "extra": ["--hf-token", SECRET]}}},
    {"store": {"url": f"postgresql+asyncpg://user:{SECRET}@127.0.0.1/runs"}},
    {"tools": {"callbacks": {"secret": SECRET * 3}}},
    {"tools": {"mcp": {"servers": {"s": {"command": "x", "env": {"TOKEN": SECRET}}}}}},
    {"tools": {"mcp": {"servers": {"s": {"command": "x", "args": ["--token", SECRET, f"--password={SECRET}"]}}}}},
    {"tools": {"mcp": {"servers": {"s": {"url": f"https://h/mcp?token={SECRET}"}}}}},
    {"tools": {"mcp": {"servers": {"s": {"url": "https://h/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}}}}}},
]
MALFORMED: list[object] = [
    f"'{SECRET}' {SECRET}", f"http://user:{SECRET}@", f"ftp://user:{SECRET}@host/x", f"http://user:{SECRET}@host:99999999",
    f"postgresql+asyncpg://user:{SECRET}@host", f"mysql://user:{SECRET}@host/db", [SECRET, "ä"], {"Bearer": SECRET},
    [f"--model={SECRET}"], [["--api-key", SECRET]], [f"{SECRET}\n"],
]  # fmt: skip


def paths(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every setting, and a member of each map of settings."""
    for name, field in model.model_fields.items():
        path, kinds = (*prefix, field.alias or name), [field.annotation]
        yield path
        while kinds:
            kind: Any = kinds.pop()
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from paths(kind, path)
            elif get_origin(kind) is dict:
                yield (*path, "x")
                inner = get_args(kind)[1]
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    yield from paths(inner, (*path, "x"))
            elif get_origin(kind) is UnionType:
                kinds += get_args(kind)


def nested(path: tuple[str, ...], value: object) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def everything_about(error: BaseException) -> str:
    """Return what a log or a Python program would print about the error and its causes."""
    return f"{error!r} {''.join(traceback.format_exception(error))}"


def attempt(read: Callable[[], Settings | None]) -> tuple[Settings | None, str]:
    """Return the result of `read`, or everything about the error that it raises."""
    try:
        return read(), ""
    except ForgeError as error:
        return None, everything_about(error)


PATHS = list(paths(Settings))


def test_the_tested_paths_include_every_secret_setting() -> None:
    assert {
        ("server", "api_keys"), ("server", "api_keys_file"), ("backend", "url"), ("store", "url"),
        ("tools", "mcp", "servers", "x", "headers", "x"), ("models", "x", "sampling"),
    } <= set(PATHS)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("value", MALFORMED, ids=range(len(MALFORMED)))
def test_errors_contain_no_malformed_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    monkeypatch.setenv("MY_SECRET", SECRET)
    refused = 0
    paths_tried = sample(PATHS, 3)
    for path in paths_tried:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(nested(path, value)))
        for read in (partial(build_settings, nested(path, value)), partial(load, file, {})):
            settings, message = attempt(read)
            assert SECRET not in message, path
            refused += settings is None
            if settings is not None and not is_no_secret(path):
                assert SECRET not in str(mask_secrets(settings)), path
    assert refused > len(paths_tried)


def is_no_secret(path: tuple[str, ...]) -> bool:
    """Names, paths and texts of prompts are shown as they are."""
    return path[-1] in {
        "model", "host", "gguf", "binary", "command", "cwd", "ollama", "aliases", "api_keys_file", "admin_keys_file",
        "api_key_file", "extra", "args", "terminal_tools", "x", "chat_template", "repositories", "protected",
        "instructions", "visible_paths",
    }  # fmt: skip


@pytest.mark.parametrize("values", WORKING, ids=[str(index) for index in range(len(WORKING))])
def test_valid_secrets_are_masked(values: Mapping[str, Any]) -> None:
    settings = build_settings(values)

    assert SECRET not in str(mask_secrets(settings))
    assert SECRET not in attempt(lambda: refuse_unusable(settings))[1]


@pytest.mark.parametrize(
    "text",
    [
        f"server:\n  api_keys: [{SECRET}\n  port: 1\n",
        f"server:\n  api_keys: *{SECRET}\n",
        f"server:\n  api_keys: !{SECRET} x\n",
        f"server:\n  api_keys: '{SECRET}\n",
        f'server:\n  api_keys: "{SECRET}\\q"\n',
        f"server:\n\tapi_keys: {SECRET}\n",
        f"server: {{api_keys: [{SECRET}}}\n",
        f"backend:\n  api_key: %{SECRET}\n",
        f"{SECRET}\x01: x\n",
        f"backend: {SECRET}\n",
        SECRET,
        f"a: &{SECRET} 1\nb: &{SECRET} 2\nc: [",
        f"%YAML {SECRET}\n---\na: 1\n",
    ],
)
def test_a_yaml_error_does_not_quote_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError) as raised:
        load(file, {})

    assert SECRET not in everything_about(raised.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FORGE_PROXY_SERVER", f'{{"api_keys": ["{SECRET}"'),
        ("FORGE_PROXY_SERVER", f'{{"api_keys": {{"{SECRET}": 1}}}}'),
        ("FORGE_PROXY_SERVER__API_KEYS", f"{SECRET}ä"),
        ("FORGE_PROXY_BACKEND__URL", f"user:{SECRET}@host"),
        ("FORGE_PROXY_STORE__URL", f"mysql://user:{SECRET}@host/db"),
        ("FORGE_PROXY_TOOLS__CALLBACKS__SECRET", SECRET[:5]),
        ("FORGE_PROXY_TOOLS__MCP__SERVERS", f'{{"s": {{"headers": "{SECRET}"}}}}'),
        ("FORGE_PROXY_MODELS", SECRET),
        ("FORGE_PROXY_BACKEND__LLAMA_SERVER__EXTRA", f"--api-key {SECRET}"),
    ],
)
def test_an_invalid_variable_is_reported_without_its_value(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(SettingsError) as raised:
        load(None, {})

    assert SECRET[:5] not in everything_about(raised.value)


@pytest.mark.parametrize("url", [f"user:{SECRET}@host", f"http://user:{SECRET}@host:port", f"http://{SECRET}@:0"])
def test_an_invalid_option_is_reported_without_its_value(url: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(None, collect_overrides(url=url))

    assert SECRET not in everything_about(raised.value)


@pytest.mark.parametrize("line", [f"{SECRET} {SECRET}", f"{SECRET}ä", f'"{SECRET}"'])
def test_an_invalid_key_file_is_reported_without_its_lines(tmp_path: Path, line: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"{line}\n")

    for name in ("api_keys_file", "admin_keys_file"):
        with pytest.raises(ForgeError) as raised:
            refuse_unusable(build_settings({"server": {name: str(file)}}))

        assert SECRET not in everything_about(raised.value)
