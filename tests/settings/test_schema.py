"""The JSON Schema of the settings file: the copy in config/ is up to date, and the documented settings satisfy it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from forge_proxy.settings import build_settings
from forge_proxy.settings.schema import render_schema, settings_schema
from tests.fakes.processes import ROOT, command

CONFIG = ROOT / "config" / "forge-proxy.yaml"
COPY = ROOT / "config" / "forge-proxy.schema.json"
VALIDATOR = jsonschema_rs.validator_for(settings_schema())


def faults(settings: Any) -> list[str]:
    return [f"{error.instance_path}: {error.message}" for error in VALIDATOR.iter_errors(settings)]


def test_the_stored_schema_equals_the_output_of_the_command() -> None:
    assert COPY.read_text() == render_schema() == command("config", "schema").out


def test_the_documented_settings_reference_the_schema_and_satisfy_it() -> None:
    first, _, text = CONFIG.read_text().partition("\n")

    assert first == f"# yaml-language-server: $schema={COPY.name}"
    assert faults(yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": {"slots": "auto", "self_test": "on-load", "ollama": {"think": True}}},
        {"backend": {"slots": 2, "self_test": False, "llama_cpp": {"think": "off"}}},
        {"sampling": {"defaults": True}, "guardrails": {"enabled": {"validate": False}}},
        {"models": {"coder": {"gguf": "/models/a.gguf", "aliases": ["gpt-4o"], "context": 4096}}},
    ],
)
def test_valid_settings_satisfy_the_schema(settings: dict[str, Any]) -> None:
    build_settings(settings)

    assert faults(settings) == []


@pytest.mark.parametrize(
    ("settings", "at"),
    [
        ({"server": {"prot": 9000}}, "server"),
        ({"backend": {"slots": 0}}, "slots"),
        ({"backend": {"kind": "vllm"}}, "kind"),
        ({"sampling": {"defaults": "maybe"}}, "defaults"),
    ],
)
def test_invalid_settings_violate_the_schema(settings: dict[str, Any], at: str) -> None:
    assert any(at in fault for fault in faults(settings))


def test_the_schema_contains_no_local_path() -> None:
    assert str(Path.home()) not in COPY.read_text()
