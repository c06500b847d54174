"""Errors of real servers for a request that does not fit, with the numbers that they report."""

from __future__ import annotations

import pytest

from forge_proxy.core.backend_errors import BackendError, ContextOverflow, LimitTooLarge
from forge_proxy.core.jsontypes import Json
from forge_proxy.wire.backends.openai.errors import decode_error
from tests.folding import folded


def said(message: str, **fields: Json) -> Json:
    return {"error": {"message": message, **fields}}


IS = "This model's maximum context length is 8192 tokens"
PROMPTS: list[tuple[str, Json, int | None, int | None]] = [
    (
        "llama.cpp",
        said(
            "request (6008 tokens) exceeds the available context size (2048 tokens), try increasing it",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=6008,
            n_ctx=2048,
        ),
        6008,
        2048,
    ),
    ("llama.cpp in words", said("request (6008 tokens) exceeds the available context size (2048 tokens)"), 6008, 2048),
    ("llama.cpp 2024", said("the request exceeds the available context size. try increasing it", code=500), None, None),
    (
        "openai",
        said(f"{IS}. However, your messages resulted in 9,001 tokens.", code="context_length_exceeded"),
        9001,
        8192,
    ),
    ("openai by code", said("too much", code="context_length_exceeded"), None, None),
    (
        "openai 2025",
        said("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
        300000,
        272000,
    ),
    ("vllm", {"object": "error", "message": f"{IS}. However, your request has 9000 input tokens."}, 9000, 8192),
    (
        "vllm 2025",
        {"message": f"{IS}. However, you requested 9100 tokens (9000 in the messages, 100 in the completion)."},
        9000,
        8192,
    ),
    (
        "vllm 2026",
        said(f"{IS}. However, you requested 0 output tokens and your prompt contains at least 8193 input tokens"),
        8193,
        8192,
    ),
    (
        "vllm by length",
        said("The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
        25938,
        4096,
    ),
    (
        "vllm decoder",
        said("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        5000,
        4096,
    ),
    (
        "lm studio",
        {
            "error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded "
            "with context length of only 7866 tokens, which is not enough."
        },
        10136,
        7866,
    ),
    ("lm studio 0.4", {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}, 15028, 7424),
    (
        "lm studio no numbers",
        said("The number of tokens to keep from the initial prompt is greater than the context length."),
        None,
        None,
    ),
    ("ollama", {"error": "the input length exceeds the context length"}, None, None),
    ("ollama cloud", {"error": "prompt too long; exceeded max context length by 17 tokens (ref: 1)"}, None, None),
    (
        "anthropic",
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
        210000,
        200000,
    ),
    (
        "openrouter",
        said(
            "This endpoint's maximum context length is 16384 tokens. "
            "However, you requested about 94307 tokens (94307 of text input)."
        ),
        94307,
        16384,
    ),
    (
        "sglang",
        {"message": "The input (10000 tokens) is longer than the model's context length (8192 tokens)."},
        10000,
        8192,
    ),
    ("tgi", {"error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"}, 5000, 4095),
    (
        "gemini",
        said("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        1200000,
        1048576,
    ),
]


@folded
@pytest.mark.parametrize("status", [400, 413, 500, 502])
@pytest.mark.parametrize(("body", "tokens", "window"), [row[1:] for row in PROMPTS], ids=[row[0] for row in PROMPTS])
def test_an_overflow_is_recognized_by_the_message_of_each_server(
    status: int, body: Json, tokens: int | None, window: int | None
) -> None:
    fault = decode_error("http://m", status, body)

    assert type(fault) is ContextOverflow
    assert (fault.tokens, fault.window) == (tokens, window)


@pytest.mark.parametrize(
    ("message", "room"),
    [
        (
            f"'max_tokens' or 'max_completion_tokens' is too large: 8000. {IS} and your request has 2778 input tokens",
            5414,
        ),
        (f"{IS}. However, you requested 9000 tokens (1000 in the messages, 8000 in the completion).", 7192),
        (f"{IS}, however you requested 9000 tokens (1000 in your prompt; 8000 for the completion).", 7192),
        (f"{IS}. However, you requested 64 output tokens and your prompt contains at least 8129 input tokens", None),
        (f"{IS}. However, you requested 8000 output tokens and your prompt contains 1000 input tokens", 7192),
        ("max_completion_tokens=131072 cannot be greater than max_model_len=max_total_tokens=65536", None),
        ("input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000, decrease", 789),
        ("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude", 64000),
        ("max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas", 16384),
        ("Field 'max_tokens': Value must be between -1 <= value <= 2147483647, but got -239007744", 2147483647),
    ],
)
def test_a_token_limit_that_is_too_large_is_distinguished_from_an_overflow(message: str, room: int | None) -> None:
    fault = decode_error("http://m", 400, said(message))

    assert isinstance(fault, LimitTooLarge)
    assert fault.room == room


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            429,
            said("Request too large: maximum context length is 8192 tokens. However, your messages resulted in 9000"),
        ),
        (401, said("the request exceeds the available context size")),
        (503, said("Loading model")),
        (400, said("Field 'n': Value must be between 1 <= value <= 2, but got 3")),
        (400, said("x" * 5000 + "the request exceeds the available context size")),
        (500, said("no memory left")),
        (400, "<html>"),
        (400, None),
        (400, [1]),
        (400, {"error": {"message": None}}),
    ],
)
def test_other_errors_are_not_overflows(status: int, body: Json) -> None:
    assert type(decode_error("http://m", status, body)) is BackendError
