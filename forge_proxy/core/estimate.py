"""About how many tokens a prompt has, for model servers that cannot count, and how such a guess is set right by what
they report. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from forge_proxy.core.jsontypes import Json, is_list, is_object
from forge_proxy.core.messages import Message

_CHARACTERS_A_TOKEN = 4
"""Of English text and JSON in the usual tokenizers; of code and other languages it is fewer."""
_FRAME = 16
"""Characters for what a chat template puts around a message: its role and the marks of its beginning and end."""
_MEDIA = frozenset({"image_url", "input_audio", "file"})
_LEAST, _MOST = 0.5, 8.0
"""Real tokens for each guessed one. More come with pictures and with languages of a token a byte; fewer only where a
server does not report what it has in its cache."""
_TRUST = 0.5
"""How much of the way to a newly reported ratio is gone."""


def estimate_tokens(*parts: Json) -> int:
    """A quarter of the characters of all texts and names in messages and tools. Pictures and sound count nothing."""
    characters = 0
    left: list[Json] = [*parts]
    while left:
        value = left.pop()
        if isinstance(value, str):
            characters += len(value)
        elif is_list(value):
            left += value
        elif is_object(value):
            characters += sum(map(len, value))
            left += [inner for key, inner in value.items() if key not in _MEDIA]
    return characters // _CHARACTERS_A_TOKEN


def tokens_of_text(characters: int) -> int:
    """The estimate for so many characters."""
    return characters // _CHARACTERS_A_TOKEN


def message_tokens(message: Message) -> int:
    """The estimate for one message, by its metadata where these say one."""
    known = message.metadata.token_estimate
    if known is not None:
        return known
    characters = _FRAME + len(message.content)
    for call in message.tool_calls:
        characters += _FRAME + len(call.tool) + len(call.arguments)
    return characters // _CHARACTERS_A_TOKEN


def messages_tokens(messages: Iterable[Message]) -> int:
    """The estimate for all of them."""
    return sum(map(message_tokens, messages))


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many tokens there really are for each estimated one, as far as a model server has reported any."""

    ratio: float = 1.0
    seen: int = 0

    @classmethod
    def of(cls, estimated: int, counted: int) -> Calibration:
        """Of a prompt that was estimated to have so many tokens and surely has so many, however unlikely that is."""
        return cls(counted / max(1, estimated), 1)

    def observed(self, estimated: int, reported: int) -> Calibration:
        """With a prompt that was estimated to have so many tokens and had so many. The first one is believed as it is,
        later ones move it half the way. One that cannot be is left out, a very large one is believed up to eightfold.
        """
        if estimated <= 0 or reported < _LEAST * estimated:
            return self
        ratio = min(_MOST, reported / estimated)
        if self.seen:
            ratio = self.ratio + _TRUST * (ratio - self.ratio)
        return Calibration(ratio, self.seen + 1)

    def tokens(self, estimated: int) -> int:
        """What an estimate comes to."""
        return round(self.ratio * estimated)

    def estimated(self, tokens: int) -> int:
        """The estimate that comes to at most so many tokens."""
        return int(tokens / self.ratio) if self.ratio else tokens
