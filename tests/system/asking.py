"""Sends requests to the model server program and reads streamed responses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx

JsonDict = dict[str, Any]
PATH = "/v1/chat/completions"
TOOL: JsonDict = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def ask(model: str, **fields: object) -> JsonDict:
    """A request to that model of `tests.fakes.model_server`."""
    return {"model": model, "messages": [{"role": "user", "content": "count"}], **fields}


def events(lines: Iterable[str]) -> list[str]:
    """The data of each event."""
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def text(data: Iterable[str]) -> str:
    """Join the deltas of a stream."""
    choices = [choice for event in data if event != "[DONE]" for choice in json.loads(event).get("choices", [])]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def error(response: httpx.Response) -> JsonDict:
    """Return the error of a response, which has the OpenAI format and a request id."""
    body: JsonDict = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"]
    return body["error"]
