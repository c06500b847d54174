"""The corrections that led to a call, so that later requests show the outcome of that call.

A correction is found again by the id of its call and the index of the message that contains the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from cachetools import FIFOCache

from forge_proxy.core.guardrails.conversation import announces_call, read_content
from forge_proxy.core.guardrails.heuristics import Heuristic
from forge_proxy.core.jsontypes import JsonObject

_CACHE_SIZE = 1024
"""Maximum number of ids of calls, of all models. A correction that is dropped counts as one that led nowhere."""
_MAX_SAME_ID = 8
"""Corrections kept per id: some model servers number the calls of each response."""
_MAX_SHIFT = 2
"""Messages that a client may insert before a call: its text as a message of its own, or reasoning."""
_MAX_WORDS = 200
_ALIKE = 0.6
"""The share of common words from which two texts are the same answer, worded differently."""
_MIN_WORDS = 3
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction that led to a call, in a message that the client sends at `index`."""

    heuristics: tuple[Heuristic, ...]
    call_id: str
    index: int
    words: frozenset[str] = frozenset()
    """The words of the plain text that was retried."""
    is_effective: bool = False
    """Whether the client has sent the result of the call, and it was not an error."""
    is_wasted: bool = False
    """Whether the model returned to the text that was retried: the work in between was ineffective."""

    def is_about(self, text: str) -> bool:
        """Whether the text is the one that was retried, possibly worded differently.

        Announcements are not: some models write the same one before each call, and each retry is of use.
        """
        words = read_words(text)
        common = len(words & self.words)
        is_alike = common >= _MIN_WORDS and common >= _ALIKE * len(words | self.words)
        return is_alike and not announces_call(text)


class CorrectionLog:
    """The latest corrections of all models."""

    def __init__(self) -> None:
        self._corrections: FIFOCache[tuple[str, str], tuple[Correction, ...]] = FIFOCache(_CACHE_SIZE)

    def __bool__(self) -> bool:
        """Whether there is any correction to find."""
        return bool(self._corrections)

    def add(self, model: str, correction: Correction) -> None:
        """Add a correction. It replaces an earlier one of the same call."""
        key = (model, correction.call_id)
        others = [known for known in self._corrections.get(key, ()) if known.index != correction.index]
        self._corrections[key] = (*others[-_MAX_SAME_ID + 1 :], correction)

    def find(self, model: str, messages: Sequence[JsonObject], start: int) -> Iterator[tuple[Correction, str]]:
        """Yield the corrections whose calls have a result among the messages from `start` on, with that result."""
        called_at = -1
        for index in range(start, len(messages)):
            message = messages[index]
            if message.get("tool_calls"):
                called_at = index
            elif (identity := message.get("tool_call_id")) is not None:
                for known in self._corrections.get((model, str(identity)), ()):
                    if 0 <= called_at - known.index <= _MAX_SHIFT:
                        yield known, read_content(message.get("content"))
                        break

    def forget(self, model: str | None, heuristics: Sequence[Heuristic]) -> None:
        """Drop the corrections by any of these heuristics, of this model or of all."""
        for key, corrections in list(self._corrections.items()):
            if model not in (None, key[0]):
                continue
            kept = tuple(each for each in corrections if not set(each.heuristics) & set(heuristics))
            if kept:
                self._corrections[key] = kept
            else:
                del self._corrections[key]


def read_words(text: str) -> frozenset[str]:
    """Return the words by which a text is recognized."""
    return frozenset(found[0].casefold() for found in islice(_WORD.finditer(text), _MAX_WORDS))
