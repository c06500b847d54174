"""One small request in the API of an endpoint, and the text of its response. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never, cast

from forge_proxy.cli.connect.written import Endpoint

JsonDict = dict[str, Any]
QUESTION = "Reply with one word: ready"
_MAX_TOKENS = 64
"""Enough for the word, and for a model that reasons first to show that it responds."""
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class CheckReply:
    """What the endpoint returned: text, and tokens of the prompt and of the response as far as it reports them."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def question_for(endpoint: Endpoint) -> JsonDict:
    """Return the body of the request."""
    messages = [{"role": "user", "content": QUESTION}]
    match endpoint.api:
        case "chat_completions" | "messages":
            return {"model": endpoint.model, "max_tokens": _MAX_TOKENS, "messages": messages}
        case "responses":
            return {"model": endpoint.model, "max_output_tokens": _MAX_TOKENS, "input": QUESTION, "store": False}
        case "ollama":
            options = {"num_predict": _MAX_TOKENS}
            return {"model": endpoint.model, "stream": False, "messages": messages, "options": options}
        case _:
            assert_never(endpoint.api)


def headers_for(endpoint: Endpoint) -> dict[str, str]:
    """Return the headers of the request."""
    key = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    return key | ({"anthropic-version": _ANTHROPIC_VERSION} if endpoint.api == "messages" else {})


def reply_in(endpoint: Endpoint, body: JsonDict) -> CheckReply | None:
    """Return the response in a body, or None if the body is not a response of this API."""
    match endpoint.api:
        case "chat_completions":
            texts = [_object(choice).get("message") for choice in _list(body.get("choices"))]
            found = [str(_object(message).get("content") or "") for message in texts]
            return _reply(body, found, "prompt_tokens", "completion_tokens") if found else None
        case "responses":
            if body.get("object") != "response":
                return None
            parts = [part for item in _list(body.get("output")) for part in _list(_object(item).get("content"))]
            return _reply(body, list(_texts(parts)), "input_tokens", "output_tokens")
        case "messages":
            if body.get("type") != "message":
                return None
            texts = list(_texts(_list(body.get("content"))))
            return _reply(body, texts, "input_tokens", "output_tokens", "cache_read_input_tokens")
        case "ollama":
            message = body.get("message")
            if not isinstance(message, dict):
                return None
            return CheckReply(
                str(_object(message).get("content") or "").strip(),
                _number(body, "prompt_eval_count"),
                _number(body, "eval_count"),
            )
        case _:
            assert_never(endpoint.api)


def error_in(body: Any) -> str | None:
    """Return the message of an error response in any of the APIs, or None."""
    error = _object(body).get("error")
    message = error if isinstance(error, str) else _object(error).get("message")
    return message if isinstance(message, str) and message else None


def _reply(body: JsonDict, texts: list[str], prompt: str, completion: str, cached: str = "") -> CheckReply:
    """`cached` is the field of prompt tokens that `prompt` does not include."""
    usage = _object(body.get("usage"))
    tokens = _number(usage, prompt)
    all_tokens = None if tokens is None else tokens + (_number(usage, cached) or 0)
    return CheckReply("".join(texts).strip(), all_tokens, _number(usage, completion))


def _texts(parts: list[Any]) -> Iterator[str]:
    return (str(part["text"]) for part in map(_object, parts) if "text" in part)


def _number(fields: JsonDict, name: str) -> int | None:
    value = fields.get(name)
    return value if isinstance(value, int) else None


def _object(value: Any) -> JsonDict:
    return cast("JsonDict", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
