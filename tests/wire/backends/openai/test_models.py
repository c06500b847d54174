"""The model list: what servers say of their windows, and what we say in the fields that clients read."""

from __future__ import annotations

import pytest

from forge_proxy.core.chat import ModelCard
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.wire.backends.openai.models import decode_models
from forge_proxy.wire.clients.chat_completions.models import encode_model, encode_models


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({}, None),
        ({"max_model_len": 4096}, 4096),
        ({"context_length": 4096}, 4096),
        ({"context_window": 4096}, 4096),
        ({"max_context_length": 4096}, 4096),
        ({"max_context": 4096}, 4096),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 9999}}, 4096),
        ({"max_model_len": None, "meta": {"n_ctx": 4096}}, 4096),
        ({"max_model_len": 2048, "meta": {"n_ctx": 4096}}, 2048),
        ({"max_model_len": 0}, None),
        ({"max_model_len": -1}, None),
        ({"max_model_len": True}, None),
        ({"max_model_len": "4096"}, None),
        ({"max_model_len": 4096.5}, None),
        ({"meta": None}, None),
    ],
)
def test_a_window_is_found_in_each_field_that_servers_use(entry: dict[str, Json], window: int | None) -> None:
    described: JsonObject = {"id": "m", **entry}

    assert decode_models({"object": "list", "data": [described]}) == [ModelCard("m", window, described)]


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"data": None}, {"data": {}}, {"data": []}, {"data": [7, None, {}, {"id": None}, {"id": 7}]}],
)
def test_what_is_no_model_list_has_no_models(body: Json) -> None:
    assert decode_models(body) == []


def test_models_stand_in_the_order_of_the_server() -> None:
    assert [card.id for card in decode_models({"data": [{"id": "b"}, {}, {"id": "a"}]})] == ["b", "a"]


def test_a_window_is_in_each_field_that_clients_read() -> None:
    card = ModelCard("m", 4096, {"id": "x", "owned_by": "llamacpp", "meta": {"n_params": 7, "n_ctx": 1}, "more": [1]})

    assert encode_model(card) == {
        "id": "m",
        "object": "model",
        "created": 0,
        "owned_by": "llamacpp",
        "more": [1],
        "context_length": 4096,
        "max_model_len": 4096,
        "max_context": 4096,
        "meta": {"n_params": 7, "n_ctx": 4096},
    }
    assert card.details["meta"] == {"n_params": 7, "n_ctx": 1}


def test_an_unknown_window_is_omitted() -> None:
    assert encode_models([ModelCard("m")]) == {
        "object": "list",
        "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "forge-proxy"}],
    }


def test_an_encoded_model_list_decodes_to_the_same_models() -> None:
    cards = [ModelCard("a", 4096), ModelCard("b")]

    assert [(card.id, card.window) for card in decode_models(encode_models(cards))] == [("a", 4096), ("b", None)]
