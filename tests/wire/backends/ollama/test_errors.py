"""The meaning of Ollama's errors. The texts were recorded from 0.34.4, except for those of its gpt-oss parser."""

from __future__ import annotations

from typing import Any

import pytest

from forge_proxy.core.backend_errors import (
    BackendError,
    ContextOverflow,
    RequestFormatRejected,
    ThinkingNotSupportedError,
    UnreadCall,
)
from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.wire.backends.ollama.errors import decode_ollama_error, is_cut_call

TOO_LONG = (
    '{"error":{"code":400,"message":"request (6821 tokens) exceeds the available context size (1024 tokens), try '
    'increasing it","type":"exceed_context_size_error","n_prompt_tokens":6821,"n_ctx":1024}}'
)
UNREAD = 'error parsing tool call: raw=\'{"city": "O\'Hare"\', err=unexpected end of JSON input'
NO_ARGUMENTS = 'llama-server returned invalid tool call arguments for "f": '


def test_an_overflow_below_is_one_here() -> None:
    error = decode_ollama_error("u", 400, {"error": TOO_LONG})

    assert isinstance(error, ContextOverflow)
    assert (error.tokens, error.window) == (6821, 1024)
    assert error.server_message.startswith("request (6821 tokens)")


def test_the_error_of_a_missing_model_has_a_remedy() -> None:
    error = decode_ollama_error("u", 404, {"error": "model 'qwen3' not found"})

    assert (error.status, error.server_message) == (404, "model 'qwen3' not found; `ollama pull qwen3` fetches it")


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, '"tiny" does not support thinking', ThinkingNotSupportedError),
        (400, 'invalid think value: "xhigh" (must be "high", "medium", "low", "max", true, or false)', BackendError),
        (400, "the input length exceeds the context length", ContextOverflow),
        (500, UNREAD, UnreadCall),
        (500, NO_ARGUMENTS + "invalid character 'w'", UnreadCall),
        (400, '"tiny" does not support tools', RequestFormatRejected),
        (500, "model runner has unexpectedly stopped", BackendError),
    ],
)
def test_kinds(status: int, words: str, kind: type[BackendError]) -> None:
    error = decode_ollama_error("u", status, {"error": words})

    assert type(error) is kind
    assert (error.status, error.server_message) == (status, words)


@pytest.mark.parametrize(
    ("status", "words", "need"),
    [
        (
            400,
            "json: cannot unmarshal bool into Go struct field X of type api.ToolProperty",
            UnsupportedFeature.PLAIN_SCHEMAS,
        ),
        (
            500,
            'template: :9:74: executing "" at <index $property.Type 0>: error calling index',
            UnsupportedFeature.UNCLEAR,
        ),
    ],
)
def test_rejections_of_the_request_format_are_recognized(status: int, words: str, need: UnsupportedFeature) -> None:
    error = decode_ollama_error("u", status, {"error": words})

    assert isinstance(error, RequestFormatRejected)
    assert error.need is need


def test_an_option_of_the_wrong_type_is_an_invalid_request() -> None:
    assert decode_ollama_error("u", 500, {"error": 'option "temperature" must be of type float32'}).status == 400


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        (NO_ARGUMENTS + "unexpected end of JSON input", True),
        (NO_ARGUMENTS + "invalid character 'w' looking for beginning of value", False),
        ("unexpected end of JSON input", False),
    ],
)
def test_a_call_that_was_cut(words: str, cut: bool) -> None:
    assert is_cut_call(decode_ollama_error("u", 500, {"error": words})) is cut


@pytest.mark.parametrize(("words", "written"), [(UNREAD, '{"city": "O\'Hare"'), (NO_ARGUMENTS, "")])
def test_the_models_text_is_distinguished_from_the_error(words: str, written: str) -> None:
    error: Any = decode_ollama_error("u", 500, {"error": words})

    assert error.written == written
