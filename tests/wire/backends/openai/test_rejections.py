"""What real servers say about a request that they refuse for its form, and what they mean by it."""

from __future__ import annotations

import pytest

from forge_proxy.core.backend_errors import BackendError, RequestFormatRejected, UnreadCall
from forge_proxy.core.dialect import UnsupportedFeature
from forge_proxy.wire.backends.openai.errors import decode_error
from tests.folding import folded

PARSER = "Unable to generate parser for this template. Automatic parser generation failed: "
JINJA = (
    PARSER + "\n------------\nWhile executing CallExpression at line 1, column 263 in source:\n...{{ raise_exception("
)
REFUSALS = [
    (
        JINJA + "\nError: Jinja Exception: Conversation roles must alternate user/assistant/...",
        UnsupportedFeature.ALTERNATION,
    ),
    (
        "After the optional system message, conversation roles must alternate user and assistant",
        UnsupportedFeature.ALTERNATION,
    ),
    (JINJA + "\nError: Jinja Exception: System message must be at the beginning.", UnsupportedFeature.SYSTEM_FIRST),
    ("Only the first message can have the role system", UnsupportedFeature.SYSTEM_FIRST),
    (JINJA + "\nError: Jinja Exception: System role not supported", UnsupportedFeature.NO_SYSTEM),
    ("This model does not support system messages", UnsupportedFeature.NO_SYSTEM),
    ("Unknown role developer", UnsupportedFeature.NO_DEVELOPER),
    (
        "messages[0].role: unknown variant `developer`, expected one of `system`, `user`",
        UnsupportedFeature.NO_DEVELOPER,
    ),
    ("Unexpected message role.", UnsupportedFeature.NO_DEVELOPER),
    ("Input should be 'system', 'user', 'assistant' or 'tool'", UnsupportedFeature.NO_DEVELOPER),
    (
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
        UnsupportedFeature.CHOICE_IN_WORDS,
    ),
    (
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        UnsupportedFeature.USER_LAST,
    ),
    ("registry.ollama.ai/library/gemma3:1b does not support tools", UnsupportedFeature.NO_TOOLS),
    ("tools param requires --jinja flag", UnsupportedFeature.NO_TOOLS),
    ("Unsupported param: tools", UnsupportedFeature.NO_TOOLS),
    (
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        UnsupportedFeature.NO_TOOLS,
    ),
    ("Thinking may not be enabled when tool_choice forces tool use.", UnsupportedFeature.FREE_CHOICE),
    ("`temperature` is deprecated for this model.", UnsupportedFeature.NO_SAMPLING),
    (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        UnsupportedFeature.NO_SAMPLING,
    ),
    ("Unsupported value: 'temperature' does not support 0.2 with this model.", UnsupportedFeature.NO_SAMPLING),
    (
        "tools.0.custom.input_schema: input_schema does not support oneOf at the top level",
        UnsupportedFeature.PLAIN_SCHEMAS,
    ),
    (
        PARSER + "JSON schema error at #/properties/city/items: schema must be an object",
        UnsupportedFeature.PLAIN_SCHEMAS,
    ),
    (
        PARSER + "JSON schema conversion failed:\nInvalid pattern ^[a-$: unterminated character class",
        UnsupportedFeature.PLAIN_SCHEMAS,
    ),
    ("Failed to initialize samplers: failed to parse grammar", UnsupportedFeature.PLAIN_SCHEMAS),
    (
        "Failed to parse tools: [json.exception.type_error.302] type must be string, but is null",
        UnsupportedFeature.PLAIN_SCHEMAS,
    ),
    (
        "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"'",
        UnsupportedFeature.PLAIN_SCHEMAS,
    ),
    (
        "Error rendering prompt with jinja template: Cannot apply filter 'upper' to type: Array",
        UnsupportedFeature.UNCLEAR,
    ),
]


@folded
@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize(("words", "need"), REFUSALS)
def test_each_refusal_names_its_need(status: int, words: str, need: UnsupportedFeature) -> None:
    fault = decode_error("http://m", status, {"error": {"message": words}}, {"retry-after": "1"})

    assert isinstance(fault, RequestFormatRejected)
    assert fault.need is need
    assert (fault.status, fault.server_message, fault.headers) == (status, words, {"retry-after": "1"})


@pytest.mark.parametrize(
    "words", ["image input is not supported", "no slot is free", "Failed to parse messages: type must be string"]
)
def test_errors_that_no_other_format_avoids_are_not_format_rejections(words: str) -> None:
    assert type(decode_error("http://m", 500, {"error": {"message": words}})) is BackendError


@pytest.mark.parametrize("status", [401, 404, 429, 503])
def test_a_specific_status_takes_precedence_over_the_message(status: int) -> None:
    assert type(decode_error("http://m", status, {"error": "failed to parse grammar"})) is BackendError


def test_a_call_that_could_not_be_read_stays_one() -> None:
    assert isinstance(decode_error("http://m", 500, {"error": "Failed to parse input at pos 3: grammar"}), UnreadCall)
