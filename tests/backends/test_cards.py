"""The file in which the cards of tested models are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forge_proxy.backends.capability_cache import CapabilityCache, state_folder
from forge_proxy.core.capability import CapabilityCard, read_card
from forge_proxy.core.rescue import LearnedForm
from forge_proxy.core.rescue.templates import LearnedTemplate

CARD = CapabilityCard("m", "prompt", "it is so", calls=True, parallel=False)
OTHER = CapabilityCard("n", "native", "it is so", calls=True)


FORM = LearnedForm("named", "", "<|act|>", "<|done|>", "", name_closes="<|with|>")
"""A form as it is learned from a template."""


@pytest.mark.parametrize(
    "template",
    [LearnedTemplate(FORM, digest="abc"), LearnedTemplate(None, "no calls", "why", "abc"), None],
)
def test_what_was_learned_from_the_template_is_kept_in_the_card(
    tmp_path: Path, template: LearnedTemplate | None
) -> None:
    card = replace(CARD, template=template)

    CapabilityCache(tmp_path, "s").keep(card)

    assert CapabilityCache(tmp_path, "s").load() == [card]


def test_a_card_of_an_earlier_version_has_no_template_and_is_read() -> None:
    written = {key: value for key, value in CARD.as_json().items() if key != "template"}

    assert read_card(written) == CARD


def test_cards_are_stored_by_server_and_model(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    here = CapabilityCache(folder, "http://here")
    here.keep(OTHER)
    here.keep(CapabilityCard("m", "native", "earlier", calls=False))
    here.keep(CARD)
    CapabilityCache(folder, "http://there").keep(OTHER)

    assert sorted(CapabilityCache(folder, "http://here").load(), key=lambda card: card.model) == [CARD, OTHER]
    assert CapabilityCache(folder, "http://there").load() == [OTHER]
    assert CapabilityCache(folder, "http://nowhere").load() == []
    assert [path.name for path in folder.iterdir()] == ["capabilities.json"]


@pytest.mark.parametrize("written", [b"", b"{", b"[]", b'{"s": 7}', b'{"s": {"m": {"model": "m"}}}', b"\xff"])
def test_a_file_of_another_format_has_no_cards_and_is_replaced(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "capabilities.json").write_bytes(written)
    file = CapabilityCache(tmp_path, "s")

    assert file.load() == []
    file.keep(CARD)
    assert file.load() == [CARD]


def test_a_read_only_folder_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    file = CapabilityCache(tmp_path / "file" / "folder", "s")

    file.keep(CARD)

    assert file.load() == []


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_STATE_HOME": "/state"}, Path("/state/forge-proxy")),
        ({"XDG_STATE_HOME": "relative"}, Path.home() / ".local/state/forge-proxy"),
        ({}, Path.home() / ".local/state/forge-proxy"),
    ],
)
def test_the_state_folder_follows_the_xdg_specification(
    environment: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert state_folder() == folder
