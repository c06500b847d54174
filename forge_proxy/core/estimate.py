"""Estimates of prompt tokens for model servers that cannot count, calibrated by the counts that they report. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.messages import Message

_CHARACTERS_A_TOKEN = 4
"""For English text and JSON in common tokenizers; code and other languages have fewer characters per token."""
_FRAME = 16
"""Characters for what a chat template adds to a message: the role and the begin and end markers."""
_MEDIA = frozenset({"image_url", "input_audio", "file"})
_LEAST, _MOST = 0.5, 8.0
"""Bounds of real tokens per estimated one. Images and languages with one token per byte raise the ratio; it is
low only if a server does not report cached tokens."""
_TRUST = 0.5
"""Weight of a newly reported ratio in the moving average."""


_SCALARS = frozenset({int, float, bool, type(None)})


def estimate_tokens(*parts: Json) -> int:
    """Return a quarter of the characters of all texts and names in messages and tools; images and audio count as 0."""
    characters = 0
    pending: list[Json] = [*parts]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            characters += len(value)
        elif is_list(value):
            pending += value
        elif is_object(value):
            for key, inner in value.items():
                characters += len(key)
                if isinstance(inner, str):  # most values; the stack would cost more than counting them
                    characters += 0 if key in _MEDIA else len(inner)
                elif inner.__class__ not in _SCALARS and key not in _MEDIA:
                    pending.append(inner)
    return characters // _CHARACTERS_A_TOKEN


def estimate_prompt_tokens(messages: Json, tools: Json) -> int:
    """Return the estimate for a prompt. Chat templates render tools as JSON, and writing it is faster than a search."""
    try:
        characters = len(orjson.dumps(tools)) if tools else 0
    except TypeError:  # nested too deeply, or an integer of more than 64 bits
        return estimate_tokens(messages, tools)
    return estimate_tokens(messages) + estimate_text_tokens(characters)


def estimate_text_tokens(characters: int) -> int:
    """Return the estimate for a number of characters."""
    return characters // _CHARACTERS_A_TOKEN


def estimate_message_tokens(message: Message) -> int:
    """Return the estimate for one message, that of its metadata if there is one."""
    known = message.metadata.token_estimate
    if known is not None:
        return known
    characters = _FRAME + len(message.content)
    for call in message.tool_calls:
        characters += _FRAME + len(call.tool) + len(call.arguments)
    return characters // _CHARACTERS_A_TOKEN


def estimate_messages_tokens(messages: Iterable[Message]) -> int:
    """Return the sum of the estimates for all messages."""
    return sum(map(estimate_message_tokens, messages))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratio of real to estimated tokens, from the counts that a model server has reported."""

    ratio: float = 1.0
    samples: int = 0

    @classmethod
    def from_count(cls, estimated: int, counted: int) -> Calibration:
        """Build a calibration from one prompt with a certain count, without bounds on the ratio."""
        return cls(counted / max(1, estimated), 1)

    def update(self, estimated: int, reported: int) -> Calibration:
        """Return the calibration updated by one prompt.

        The first ratio is adopted, later ones move it halfway. A ratio below 0.5 is ignored, one above 8 counts as 8.
        """
        if estimated <= 0 or reported < _LEAST * estimated:
            return self
        ratio = min(_MOST, reported / estimated)
        if self.samples:
            ratio = self.ratio + _TRUST * (ratio - self.ratio)
        return Calibration(ratio, self.samples + 1)

    def to_tokens(self, estimated: int) -> int:
        """Convert an estimate to calibrated tokens."""
        return round(self.ratio * estimated)

    def to_estimate(self, tokens: int) -> int:
        """Return the largest estimate that corresponds to at most `tokens` tokens."""
        return int(tokens / self.ratio) if self.ratio else tokens
