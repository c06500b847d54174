"""The error for a malformed request: OpenAI format, the field, a request id."""

from __future__ import annotations

import httpx
import pytest

from tests.system.asking import PATH, TOOL, JsonDict, ask, error

CHOICE: JsonDict = {"type": "function", "function": {"name": "nonsense"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": 3, "content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
        ({"model": 3}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": 3}, "stream_options"),
        ({"n": 0}, "n"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [TOOL], "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": CHOICE}, "tool_choice"),
        ({"tools": [TOOL], "parallel_tool_calls": 1}, "parallel_tool_calls"),
    ],
)
def test_a_malformed_request_is_a_400_that_names_the_field(client: httpx.Client, fields: JsonDict, param: str) -> None:
    response = client.post(PATH, json={**ask("says"), **fields})

    assert response.status_code == 400
    said = error(response)
    assert (said["type"], said["param"]) == ("invalid_request_error", param)
    assert param in said["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"words"', b'{"model": "\xff"}', b"[" * 100_000, b'{"messages": NaN}']
)
def test_a_body_that_is_not_a_json_object_is_a_400(client: httpx.Client, body: bytes) -> None:
    response = client.post(PATH, content=body)

    assert response.status_code == 400
    assert error(response)["param"] == "body"


def test_an_unknown_guardrail_is_a_400_that_names_the_header(client: httpx.Client) -> None:
    response = client.post(PATH, json=ask("says"), headers={"x-forge-guardrails": "resuce"})

    assert response.status_code == 400
    assert error(response)["param"] == "header x-forge-guardrails"


def test_an_unknown_path_is_a_404(client: httpx.Client) -> None:
    response = client.get("/v1/nonsense")

    assert response.status_code == 404
    assert "/v1/nonsense" in error(response)["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", PATH, "POST"), ("POST", "/v1/models", "GET"), ("DELETE", "/v1/models/says", "GET")],
)
def test_a_wrong_method_is_a_405_that_names_the_right_one(
    client: httpx.Client, method: str, path: str, allowed: str
) -> None:
    response = client.request(method, path)

    assert response.status_code == 405
    assert error(response)["type"] == "invalid_request_error"
    assert allowed in response.headers["allow"]


def test_an_unknown_model_in_the_list_is_a_404_that_names_the_known_ones(client: httpx.Client) -> None:
    response = client.get("/v1/models/gpt-9")

    assert response.status_code == 404
    said = error(response)
    assert said["code"] == "model_not_found"
    assert "says" in said["message"]


def test_the_request_id_of_the_client_is_returned(client: httpx.Client) -> None:
    answered = client.post(PATH, json=ask("says"), headers={"x-request-id": "mine-1"})
    refused = client.post(PATH, content=b"{", headers={"x-request-id": "mine-2"})

    assert (answered.headers["x-request-id"], refused.headers["x-request-id"]) == ("mine-1", "mine-2")
