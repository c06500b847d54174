"""The section `tools`: contradictions are refused, and secrets are never displayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from forge_proxy.daemon.reload import mask_secrets
from forge_proxy.settings import SettingsError, load
from forge_proxy.tools.config import McpServerConfig

SECRET = "0123456789abcdef"


def write(folder: Path, tools: dict[str, Any]) -> Path:
    file = folder / "forge-proxy.yaml"
    file.write_text(yaml.safe_dump({"tools": tools}))
    return file


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"callbacks": {"allow": ["https://a.example"]}}, "tools.callbacks: allow requires a secret"),
        ({"callbacks": {"secret": "hunter2"}}, "tools.callbacks.secret: expected a secret of at least 16 characters"),
        ({"callbacks": {"secret": SECRET, "allow": ["a.example"]}}, "tools.callbacks.allow.0: expected an origin"),
        ({"mcp": {"servers": {"x": {}}}}, "tools.mcp.servers.x: set either command"),
        ({"mcp": {"servers": {"x": {"url": "http://a", "args": ["b"]}}}}, "x: args is for a server with a command"),
        ({"mcp": {"servers": {"x": {"command": "a", "headers": {"b": SECRET}}}}}, "headers is for a server with a url"),
        (
            {"mcp": {"servers": {"x": {"url": "http://a", "headers": {"b": f"{SECRET}\n"}}}}},
            "x.headers.b: expected visible ASCII",
        ),
        ({"mcp": {"servers": {"x": {"url": "http://a", "headers": SECRET}}}}, "tools.mcp.servers.x.headers: expected"),
        ({"mcp": {"servers": {"x": {"comand": SECRET}}}}, "tools.mcp.servers.x.comand: no such setting"),
    ],
)
def test_an_error_in_the_section_does_not_quote_secrets(tmp_path: Path, tools: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(write(tmp_path, tools), {})

    assert message in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_secrets_are_masked_in_displayed_settings(tmp_path: Path) -> None:
    servers = {
        "a": {"command": "a", "env": {"KEY": SECRET}},
        "b": {"url": "https://b.example/mcp", "headers": {"Authorization": SECRET}},
    }
    file = write(tmp_path, {"callbacks": {"secret": SECRET}, "mcp": {"servers": servers}})

    assert SECRET not in str(mask_secrets(load(file, {})))


def test_environment_variables_set_the_secret_and_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_TOOLS__CALLBACKS__SECRET", SECRET)
    monkeypatch.setenv("FORGE_PROXY_TOOLS__CALLBACKS__ALLOW", "https://a.example,http://127.0.0.1:9000")

    callbacks = load(None, {}).tools.callbacks

    assert callbacks.allow == ("https://a.example:443", "http://127.0.0.1:9000")
    assert callbacks.secret is not None


def test_the_documented_example_contains_every_setting_of_a_server() -> None:
    config = (Path(__file__).parents[2] / "config" / "forge-proxy.yaml").read_text()
    example = config.partition("    #   servers:\n")[2].partition("    servers: {}")[0]

    assert [name for name in McpServerConfig.model_fields if f"{name}:" not in example] == []
