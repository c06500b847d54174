"""Ollama's model routes. The bodies are from a real one, shortened."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.wire.backends.ollama.models import (
    InstalledModel,
    LoadedModel,
    ModelDescription,
    add_tag,
    decode_loaded,
    decode_show,
    decode_tags,
    supports_truncate,
    to_card,
)

TAGS: Any = {"models": [{"name": "tiny:latest", "model": "tiny:latest", "modified_at": "2026-11-21T19:30:33.87Z",
                    "size": 933617, "digest": "c620"}, {"name": "old:7b"}, "no model"]}  # fmt: skip
SHOW: Any = {
    "parameters": 'stop                           "<|im_end|>"\nnum_ctx                        1024',
    "model_info": {"general.architecture": "llama", "llama.context_length": 2048, "llama.vision.context_length": 9},
    "capabilities": ["completion", "tools"],
}
PS: Any = {"models": [{"name": "tiny:latest", "size": 933504, "size_vram": 933504, "context_length": 1536}]}
TINY = InstalledModel("tiny:latest", "c620", 933617, 1795289433)


def test_what_it_lists_shows_and_has_loaded() -> None:
    assert decode_tags(TAGS) == [TINY, InstalledModel("old:7b")]
    assert decode_show(SHOW) == ModelDescription(2048, 1024, frozenset({"completion", "tools"}))
    assert decode_loaded(PS) == [LoadedModel("tiny:latest", 1536, 933504, 933504)]


@pytest.mark.parametrize("body", [None, [], {}, {"models": None}, {"models": [1]}, "x"])
def test_invalid_responses_are_read_as_empty(body: Any) -> None:
    assert (decode_tags(body), decode_loaded(body), decode_show(body)) == ([], [], ModelDescription())


@pytest.mark.parametrize(
    ("shown", "loaded", "num_ctx", "window"),
    [
        (ModelDescription(2048, 1024), LoadedModel("tiny", 1536), None, 1536),
        (ModelDescription(2048, 1024), LoadedModel("tiny", 1536), 512, 512),
        (ModelDescription(2048, 1024), LoadedModel("tiny", 1536), 1_000_000, 2048),
        (ModelDescription(2048, 1024), None, None, 1024),
        (ModelDescription(131_072), None, None, None),
        (ModelDescription(131_072), LoadedModel("tiny"), None, None),
    ],
)
def test_the_window_is_the_one_that_a_request_will_have(
    shown: ModelDescription, loaded: LoadedModel | None, num_ctx: int | None, window: int | None
) -> None:
    card = to_card(TINY, shown, loaded, num_ctx)

    assert (card.id, card.window) == ("tiny:latest", window)
    assert card.details["meta"] == {"n_ctx_train": shown.trained_window, "size": 933617}


@pytest.mark.parametrize(
    ("name", "whole"),
    [("qwen3", "qwen3:latest"), ("qwen3:8b", "qwen3:8b"), ("host:5000/a/b", "host:5000/a/b:latest"), ("", "")],
)
def test_an_omitted_tag_is_added(name: str, whole: str) -> None:
    assert add_tag(name) == whole


@pytest.mark.parametrize(
    ("version", "knows"),
    [("0.12.5", False), ("0.12.6", True), ("0.6.2-rc1", False), ("0.34.4", True), ("0.0.0", True), ("dev", True)],
)
def test_since_when_a_long_prompt_is_refused(version: str, knows: bool) -> None:
    assert supports_truncate({"version": version}) is knows
