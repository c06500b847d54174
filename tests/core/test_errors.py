"""Errors name the party at fault, their summaries quote no content, and they survive copying and pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendError,
    BackendFault,
    BackendTimeout,
    BackendUnreachable,
    ContextOverflow,
    LimitTooLarge,
    RequestFormatRejected,
    ThinkingNotSupportedError,
    ToolsRejected,
    UnreadCall,
)
from forge_proxy.core.budget_errors import BudgetResolutionError, BudgetUnchanged, ContextBudgetExceeded
from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.core.errors import (
    EmptyAnswer,
    ForgeError,
    InvalidRequest,
    Overloaded,
    ToolCallInvalid,
    ToolChoiceUnsatisfied,
    UnknownModel,
)
from forge_proxy.core.jsontypes import Json

URL = "http://model:8080"
SECRET = "the words of a prompt"
ERRORS = [
    InvalidRequest("messages[3].content", SECRET),
    UnknownModel(SECRET, ["a", "b"]),
    Overloaded(100, 5),
    BackendUnreachable(URL, "refused"),
    BackendTimeout(URL, 1.5),
    BackendBroke(URL, "cut"),
    BackendError(URL, 500, {"error": {"message": SECRET}}, {"retry-after": "3"}),
    UnreadCall(URL, 500, SECRET),
    ContextOverflow(URL, 400, SECRET, tokens=9, window=8),
    LimitTooLarge(URL, 400, SECRET, tokens=1, window=8, room=7),
    RequestFormatRejected(URL, 400, SECRET, need=UnsupportedFeature.ALTERNATION),
    ToolsRejected(BackendError(URL, 400, SECRET), "search", 0, 2),
    ContextBudgetExceeded(9, 8, "because", exact=True),
    BudgetUnchanged("it is busy"),
    BudgetResolutionError(URL),
    ThinkingNotSupportedError(URL, 400, SECRET),
    EmptyAnswer(4),
    ToolChoiceUnsatisfied("a tool call", 4, SECRET),
    ToolCallInvalid([SECRET], 4),
]
each = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@each
def test_a_copy_equals_the_original_error(error: ForgeError) -> None:
    for copied in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert vars(copied) == vars(error)


@each
def test_summaries_quote_neither_prompts_nor_responses(error: ForgeError) -> None:
    assert SECRET not in error.summary
    assert error.summary


@each
def test_a_backend_fault_names_the_server(error: ForgeError) -> None:
    assert isinstance(error, BackendFault) == (URL in error.summary)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no slot", "code": 503}}, "no slot"),
        ({"error": "model not found"}, "model not found"),
        ({"detail": "no such route"}, "no such route"),
        ({"error": {"detail": "x"}}, "x"),
        ({"message": "plain"}, "plain"),
        ("<html><body>404</body></html>", "an HTML page"),
        ({"error": {"code": 7}}, "{'code': 7}"),
        ([1], "[1]"),
        (None, "None"),
    ],
)
def test_the_message_of_a_server_is_found_in_every_usual_error_format(body: Json, words: str) -> None:
    error = BackendError(URL, 500, body)

    assert error.server_message == words
    assert str(error) == f"the model server at {URL} answered 500: {words}"


def test_an_invalid_request_names_its_field_if_it_has_one() -> None:
    assert str(InvalidRequest("n", "expected at least 1, got 0")) == "n: expected at least 1, got 0"
    assert str(InvalidRequest("", "nothing to read")) == "nothing to read"


def test_an_unknown_model_error_lists_the_known_models() -> None:
    assert str(UnknownModel("x", ["a", "b"])) == "no model 'x'; available: a, b"
    assert str(UnknownModel("x", [])) == "no model 'x'; available: none"
