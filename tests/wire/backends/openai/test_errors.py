"""The OpenAI shape of an error, and the errors of model servers that mean a badly written call."""

from __future__ import annotations

import pytest

from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.backends.openai.errors import is_unparsed_call
from forge_proxy.wire.clients.chat_completions.errors import encode_error
from forge_proxy.wire.clients.errors import ClassifiedError


def test_an_error_has_all_four_fields() -> None:
    assert encode_error(ClassifiedError(400, "invalid_request_error", None, "no")) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    }
    assert encode_error(ClassifiedError(400, "t", "c", "no", "messages[0]")) == {
        "error": {"message": "no", "type": "t", "param": "messages[0]", "code": "c"}
    }


@pytest.mark.parametrize(
    ("body", "unread"),
    [
        ({"error": {"code": 500, "message": "Failed to parse input at pos 42: <tool_call>"}}, True),
        ({"error": "error parsing tool call: raw='{\"city\"', err=unexpected end of JSON input"}, True),
        ({"error": {"message": "ERROR PARSING TOOL CALL"}}, True),
        ({"error": {"message": "the request exceeds the available context size"}}, False),
        ({"error": {"message": None}}, False),
        ({"error": {}}, False),
        ({"error": None}, False),
        ({"message": "failed to parse input at pos 1"}, False),
        ("failed to parse input at pos 1", False),
        (None, False),
        ([], False),
    ],
)
def test_a_call_that_the_server_could_not_parse_is_distinguished_from_other_errors(body: Json, unread: bool) -> None:
    assert is_unparsed_call(body) is unread
