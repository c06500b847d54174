"""Former names of settings work until 0.3 in every source, with one warning for each."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.settings import Settings, build_settings, former_names, load

FORMER = {
    "guardrails.text_answers": "guardrails.text_responses",
    "tools.callbacks.max_answer_kb": "tools.callbacks.max_response_kb",
    "tools.mcp.max_answer_kb": "tools.mcp.max_message_kb",
}


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def messages(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in log.records if record.name == "forge_proxy.settings"]


def test_the_former_names_are_those_of_the_models() -> None:
    assert former_names() == FORMER


@pytest.mark.parametrize("old", FORMER)
@pytest.mark.parametrize("source", ["file", "environment"])
def test_a_former_name_sets_the_present_setting_with_one_warning(
    source: str, old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    value = "accept" if "text" in old else "7"
    *sections, name = old.split(".")
    file = tmp_path / "config.yaml"
    if source == "file":
        lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
        file.write_text("\n".join([*lines, f"{'  ' * len(sections)}{name}: {value}"]))
    else:
        file.write_text("")
        monkeypatch.setenv("FORGE_PROXY_" + "__".join([*sections, name]).upper(), value)

    with caplog.at_level(logging.WARNING, "forge_proxy.settings"):
        settings = load(file, {})

    assert str(value_at(settings, FORMER[old])) == value
    said_by = str(file) if source == "file" else "environment"
    assert messages(caplog) == [f"{said_by}: {old} is now {FORMER[old]}; the old name ends with 0.3"]


def test_the_environment_precedes_the_file_by_either_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yaml"

    file.write_text("guardrails: {text_responses: accept}")
    monkeypatch.setenv("FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS", "nudge")
    assert load(file, {}).guardrails.text_responses == "nudge"

    file.write_text("guardrails: {text_answers: accept}")
    monkeypatch.delenv("FORGE_PROXY_GUARDRAILS__TEXT_ANSWERS")
    monkeypatch.setenv("FORGE_PROXY_GUARDRAILS__TEXT_RESPONSES", "nudge")
    assert load(file, {}).guardrails.text_responses == "nudge"


def test_the_present_name_applies_if_both_are_set(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("guardrails: {text_answers: accept, text_responses: nudge}")

    assert load(file, {}).guardrails.text_responses == "nudge"
    with pytest.warns(DeprecationWarning, match=r"GuardPolicy\.text_answers is now text_responses"):
        both = build_settings({"guardrails": {"text_responses": "nudge", "text_answers": "accept"}})
    assert both.guardrails.text_responses == "nudge"


def test_settings_of_the_python_api_have_the_former_name_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="the old name ends with 0"):
        settings = build_settings({"tools": {"mcp": {"max_answer_kb": 7}}})
    with pytest.warns(DeprecationWarning, match=r"McpConfig\.max_answer_kb is now max_message_kb"):
        assert settings.tools.mcp.max_answer_kb == 7
    assert settings.tools.mcp.max_message_kb == 7


def test_present_names_have_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("guardrails: {text_responses: accept}\ntools: {mcp: {max_message_kb: 7}}")

    with caplog.at_level(logging.WARNING, "forge_proxy.settings"):
        load(file, {})

    assert messages(caplog) == []
