"""The catalog that Codex reads: with any required field missing, it would ignore the whole list."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.tool_grammars.text_check import MatchingText, check_text
from forge_proxy.wire.clients.chat_completions.codex_catalog import INSTRUCTIONS, encode_codex_catalog
from forge_proxy.wire.clients.chat_completions.models import encode_models
from tests.core.tool_grammars.grammars import PATCH_GRAMMAR

REQUIRED = {
    "slug", "display_name", "supported_reasoning_levels", "shell_type", "visibility", "supported_in_api", "priority",
    "base_instructions", "support_verbosity", "truncation_policy", "experimental_supported_tools",
    # required by earlier versions
    "supports_reasoning_summaries", "supports_parallel_tool_calls",
}  # fmt: skip
"""The fields without which Codex 0.169 or an earlier version does not read an entry."""


def entry(card: ModelCard) -> dict[str, Any]:
    (only,) = encode_codex_catalog([card])
    assert isinstance(only, dict)
    return only


def test_an_entry_has_what_codex_requires_and_the_real_window() -> None:
    coder = entry(ModelCard("coder", 32_768))

    assert coder.keys() >= REQUIRED
    assert (coder["slug"], coder["context_window"], coder["max_context_window"]) == ("coder", 32_768, 32_768)
    assert (coder["apply_patch_tool_type"], coder["visibility"]) == ("freeform", "list")


def test_an_unknown_window_is_left_out() -> None:
    assert not {"context_window", "max_context_window"} & entry(ModelCard("coder")).keys()


def test_aliases_are_entries_that_the_picker_does_not_show() -> None:
    catalog: list[Any] = encode_codex_catalog([ModelCard("a", 1000, {"aliases": ["small", "a"]}), ModelCard("b", 2000)])

    assert [(one["slug"], one["visibility"], one["context_window"], one["priority"]) for one in catalog] == [
        ("a", "list", 1000, 0), ("small", "hide", 1000, 0), ("b", "list", 2000, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("details", "modalities"),
    [
        ({}, None),
        ({"capabilities": ["completion"]}, ["text"]),
        ({"capabilities": ["completion", "multimodal"]}, ["text", "image"]),
        ({"capabilities": ["completion", "tools", "vision"]}, ["text", "image"]),
        ({"architecture": {"input_modalities": ["text", "image"]}}, ["text", "image"]),
    ],
)
def test_images_are_offered_unless_the_server_reports_that_the_model_takes_none(
    details: JsonObject, modalities: list[str] | None
) -> None:
    assert entry(ModelCard("coder", 1000, details)).get("input_modalities") == modalities


def test_other_clients_receive_the_list_without_the_catalog() -> None:
    cards = [ModelCard("coder", 1000)]
    with_catalog = encode_models(cards, codex=True)

    assert encode_models(cards).keys() == {"object", "data"}
    assert with_catalog["data"] == encode_models(cards)["data"]
    assert with_catalog["models"] == encode_codex_catalog(cards)


def test_the_patch_in_the_instructions_is_well_formed() -> None:
    begin, end = INSTRUCTIONS.index("*** Begin Patch"), INSTRUCTIONS.index("*** End Patch\n")
    patch = INSTRUCTIONS[begin:end] + "*** End Patch\n"

    assert check_text(PATCH_GRAMMAR, patch) == MatchingText(patch)
