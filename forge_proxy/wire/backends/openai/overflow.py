"""Recognizes errors that report a context overflow, and extracts the token counts from their messages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json, is_integer, is_object

_OPENAI = r"maximum context length is <window> tokens[.,]? However,? "
_ANY = r"[^\n]{0,60}?"
# `window`: context window; `tokens`: prompt; `requested`: requested completion tokens; `room`: maximum completion
# tokens; `least`: lower bound of the prompt, if the server stopped counting.
_WORDINGS = (
    # llama.cpp; older builds report no numbers
    r"request \(<tokens> tokens\) exceeds the available context size \(<window> tokens\)",
    r"exceeds the available context size",
    r"Field '(?:max_tokens|max_completion_tokens|n_predict)': Value must be between -?\d+ <= value <= <room>",
    # OpenAI, and vLLM, OpenRouter, DeepSeek and others after it
    _OPENAI + r"your messages resulted in <tokens>",
    _OPENAI + r"your (?:request|prompt) (?:has|contains) <tokens> input",
    _OPENAI
    + r"you requested (?:about )?\d[\d,]* tokens \(<tokens> (?:in|of) [^;,)]*[;,]? *(?:<requested> (?:in|for|of))?",
    r"limit of <window> tokens\.? Your messages resulted in <tokens>",
    r"exceeds the context window of this model",
    r"max_tokens is too large: <requested>\. This model supports at most <room> completion tokens",
    # vLLM
    _OPENAI + r"you requested <requested> output tokens and your prompt contains (?:at least <least>|<tokens>) input",
    r"is too large: <requested>\. This model's maximum context length is <window> tokens and your request has <tokens>",
    rf"passed <tokens> input tokens and requested <requested> output tokens{_ANY}context length is only <window>",
    r"max_(?:completion_)?tokens=<requested> cannot be greater than max_model_len=(?:\w+=)?<window>",
    r"prompt \(total length <tokens>\) is too long to fit into the model \(context length <window>",
    r"prompt \(length <tokens>\) is longer than the maximum model length of <window>",
    # LM Studio
    rf"keep the first <tokens> tokens{_ANY}overflows{_ANY}context length of only <window>",
    r"n_keep \(<tokens>\) >= n_ctx \(<window>\)",
    r"tokens to keep from the initial prompt is greater than the context length",
    r"input length <tokens> exceeds context length <window>",
    # Ollama
    r"input length exceeds the context length|prompt (?:is )?too long; exceeded max context length",
    # Anthropic
    r"prompt is too long: <tokens> tokens > <window> maximum",
    r"input length and .?max_tokens.? exceed context limit: <tokens> \+ <requested> > <window>",
    r"max_tokens: <requested> > <room>, which is the maximum allowed number of output tokens",
    # SGLang, TGI, Mistral, Gemini
    rf"maximum context length of <window> tokens\.{_ANY}: <tokens> tokens from the input messages and <requested>",
    r"input \(<tokens> tokens\) is longer than the model's context length \(<window> tokens\)",
    r"inputs.? tokens \+ .?max_new_tokens.? must be <= <window>\. Given: <tokens> .?inputs.? tokens and <requested>",
    r"inputs.? must have less than <window> tokens\. Given: <tokens>",
    rf"Prompt contains <tokens> tokens{_ANY}too large for model with <window> maximum context length",
    r"input token count \(?<tokens>\)? exceeds the maximum number of tokens allowed \(?<window>",
)
_PATTERNS = tuple(
    re.compile(re.sub(r"<(\w+)>", r"(?P<\1>\\d[\\d,]*)", wording), re.IGNORECASE) for wording in _WORDINGS
)
_CODES = ("context_length_exceeded", "exceed_context_size_error")
_LONGEST = 2000
"""Characters of an error that are searched: the rest may be the request itself."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """The reported token counts. `is_limit`: only the requested completion tokens are too many; `room` would fit."""

    tokens: int | None = None
    window: int | None = None
    is_limit: bool = False
    room: int | None = None


def read_overflow(body: Json, message: str) -> Overflow | None:
    """Return the overflow that an error reports; None for any other error. `message` is the message in `body`."""
    error = body.get("error", body) if is_object(body) else None
    fields = error if is_object(error) else {}
    prompt, window = fields.get("n_prompt_tokens"), fields.get("n_ctx")
    if is_integer(prompt) and is_integer(window):
        return Overflow(prompt, window)
    for pattern in _PATTERNS:
        if found := pattern.search(message, 0, _LONGEST):
            return _to_overflow(
                {name: int(value.replace(",", "")) for name, value in found.groupdict().items() if value}
            )
    return Overflow() if fields.get("code") in _CODES or fields.get("type") in _CODES else None


def _to_overflow(counts: dict[str, int]) -> Overflow:
    tokens, window, room = counts.get("tokens"), counts.get("window"), counts.get("room")
    if room is not None:
        return Overflow(tokens, window, is_limit=True, room=room)
    if not counts.get("requested") or (tokens is not None and window is not None and tokens >= window):
        return Overflow(tokens if tokens is not None else counts.get("least"), window)
    room = window - tokens if tokens is not None and window is not None else None
    return Overflow(tokens if tokens is not None else counts.get("least"), window, is_limit=True, room=room)
