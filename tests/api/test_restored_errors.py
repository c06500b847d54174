"""Errors that are read from responses have the types and the messages of those that were raised."""

from __future__ import annotations

import pytest

from forge_proxy.api.errors import classify
from forge_proxy.api.restored_errors import restore_error
from forge_proxy.core.backend_errors import BackendDown, BackendError, BackendTimeout, ResponseTooLarge
from forge_proxy.core.budget_errors import ContextBudgetExceeded
from forge_proxy.core.errors import (
    EmptyAnswer,
    ForgeError,
    RequestCancelled,
    ToolCallInvalid,
    ToolChoiceUnsatisfied,
    UnknownModel,
)
from forge_proxy.wire.clients.chat_completions.errors import encode_error

URL = "http://scripted"


@pytest.mark.parametrize(
    "error",
    [
        EmptyAnswer(2),
        ToolCallInvalid(["city is missing"], 3),
        ToolChoiceUnsatisfied("a tool call", 1, "no"),
        RequestCancelled(),
        UnknownModel("m", ["n"]),
        ContextBudgetExceeded(9000, 4096, "a test wants it", exact=True),
        BackendTimeout(URL, 1800),
        ResponseTooLarge(URL, 64_000_000),
        BackendDown(URL, "it fails repeatedly"),
    ],
)
def test_an_error_is_restored_with_its_type_and_its_message(error: ForgeError) -> None:
    classified = classify(error)
    restored = restore_error(classified.status, encode_error(classified))

    assert (type(restored), str(restored)) == (type(error), str(error))


@pytest.mark.parametrize("details", [{"code": None}, {"code": 400}, {"code": "unknown"}, {}])
def test_an_error_of_the_model_server_has_its_message(details: dict[str, object]) -> None:
    body = {"error": {"message": "no such grammar", **details}}
    restored = restore_error(400, body)  # pyright: ignore[reportArgumentType]  # object as Json

    assert isinstance(restored, BackendError)
    assert (str(restored), restored.status) == ("no such grammar", 400)


@pytest.mark.parametrize("body", [None, "an HTML page", {}, {"error": "plain"}])
def test_a_response_without_an_error_object_is_an_error_of_the_model_server(body: str | None) -> None:
    assert str(restore_error(502, body)) == "status 502"
