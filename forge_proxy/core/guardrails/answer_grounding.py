"""Finds final answers that do not agree with the results of tools: values that are in no result, or none of the result.

Only values that a model copies are checked: codes such as `ORD-4711` and long numbers. Words, sums, dates, paths and
code are the model's own. Called by `judge_answer` unless `guardrails.answer_grounding` is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from forge_proxy.core.guardrails.conversation import (
    announces_call,
    find_user_message,
    read_content,
)
from forge_proxy.core.guardrails.tool_results import ResultKind, read_kind
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, read_value, write
from forge_proxy.core.messages import ToolCall

_MAX_EVIDENCE = 400_000
"""Characters of a conversation above which no value is checked, so that the event loop is not blocked for long."""
_MAX_ANSWER = 20_000
"""Characters of an answer that are read."""
_MAX_VALUES = 30
"""Values of one answer that are checked."""
_MAX_SHORT_RESULT, _MAX_SHORT_ANSWER = 300, 200
"""Characters of a result and of an answer up to which the answer should contain a part of the result: longer results
are material, and longer answers put it into words of their own.
"""
_MIN_WORD = 4
"""Letters of a word of a result that an answer may contain."""
_HASH = re.compile(r"[0-9a-f]{7,}\Z")
"""The hash of a commit, of which the beginning is enough."""
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_DASH = re.compile("[‐‑‒–—−]")
_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"'`*|“”„]+")
_EDGE = ".:!?_"
_CODE = re.compile(r"(?=[^\W_]*(?:[-_][^\W_]+)*\Z)(?=\S*[^\W\d_])(?=(?:\D*\d){3})\S+\Z")
"""Letters and at least three digits, possibly joined by `-` or `_`."""
_LONG_NUMBER = re.compile(r"\d{5,}\Z")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class UngroundedAnswer:
    """A final answer that does not agree with the results. `values` are those that appear nowhere in the conversation;
    without any, the answer contains nothing of the latest result.
    """

    values: tuple[str, ...]
    result: str
    """The latest usable result since the user's last message."""


def has_results(messages: Sequence[JsonObject]) -> bool:
    """Whether a tool has returned anything since the user's last message: only then is an answer examined."""
    return any(message.get("role") == "tool" for message in messages[find_user_message(messages) + 1 :])


def _read_results(messages: Sequence[JsonObject]) -> Iterable[str]:
    """Yield the results of tools since the user's last message, the latest first."""
    for message in reversed(messages[find_user_message(messages) + 1 :]):
        if message.get("role") == "tool":
            yield read_content(message.get("content"))


def read_answer(calls: Sequence[ToolCall]) -> str:
    """Return the text of the calls that end a task: the values of their arguments."""
    return "\n".join(value for call in calls for value in _read_values(call.arguments))


def find_ungrounded_answer(
    answer: str, messages: Sequence[JsonObject], *, only_lookups: bool = False
) -> UngroundedAnswer | None:
    """Return what is wrong with a final answer; None if nothing is, or if no tool has returned a usable result since
    the user's last message.

    With `only_lookups`, also None unless the answer and the latest result are short and the result has codes: then the
    code is what the user wants. Longer answers name standards and versions from the model's own knowledge.
    """
    if only_lookups and len(answer) > _MAX_SHORT_ANSWER:  # before any result is read
        return None
    latest = next((result for result in _read_results(messages) if read_kind(result) is ResultKind.OK), None)
    if latest is None:
        return None
    answer = _DASH.sub("-", answer[:_MAX_ANSWER])
    is_short = len(answer) <= _MAX_SHORT_ANSWER and len(latest) <= _MAX_SHORT_RESULT
    codes = _read_codes(latest) if is_short else frozenset[str]()
    if only_lookups and not codes:
        return None
    if values := _find_unknown_values(answer, messages):
        return UngroundedAnswer(values, latest)
    if not is_short or announces_call(answer):
        return None
    facts, evidence = codes or _read_words(latest), _Evidence(answer.casefold())
    if not facts or any(evidence.has(fact) for fact in facts):
        return None
    return UngroundedAnswer((), latest)


def _find_unknown_values(answer: str, messages: Sequence[JsonObject]) -> tuple[str, ...]:
    """Return the values of an answer that appear nowhere in the conversation."""
    values = list(dict.fromkeys(islice(_find_values(_CODE_BLOCK.sub(" ", answer)), _MAX_VALUES)))
    if not values:
        return ()
    evidence = _Evidence(_read_evidence(messages))
    return tuple(value for value in values if not evidence.has(value)) if evidence.text else ()


def _find_values(text: str) -> Iterable[str]:
    """Yield the codes and long numbers of a text."""
    for found in _TOKEN.finditer(text):
        value = found[0].strip(_EDGE)
        if _CODE.match(value) or _LONG_NUMBER.match(value):
            yield value


class _Evidence:
    """A folded text in which values are looked up."""

    def __init__(self, text: str) -> None:
        self.text = text

    def has(self, value: str) -> bool:
        """Whether a value appears: as a whole, or with other separators, or as the beginning of a hash."""
        folded = value.casefold()
        return _appears(folded, self.text) or _appears(_join(folded), self._joined)

    @cached_property
    def _joined(self) -> str:
        return _join(self.text)


def _appears(value: str, text: str) -> bool:
    end = "" if _HASH.match(value) else r"(?![^\W_])"
    return value in text and re.search(rf"(?<![^\W_]){re.escape(value)}{end}", text) is not None


def _join(text: str) -> str:
    """Return a text without the separators inside values: `A-17`, `A_17` and `A17` are one value, as are `48,213` and
    `48213`.
    """
    return re.sub(r"(?<=[^\W_])[-_.,/](?=[^\W_])", "", text)


def _read_evidence(messages: Sequence[JsonObject]) -> str:
    """Return all text of a conversation, folded; nothing if it is too long."""
    texts: list[str] = []
    length = 0
    for message in messages:
        listed = message.get("tool_calls")
        text = f"{read_content(message.get('content'))}\n{write(listed) if listed else ''}"
        texts.append(text)
        length += len(text)
        if length > _MAX_EVIDENCE:
            return ""
    return _DASH.sub("-", "\n".join(texts)).casefold()


def _read_codes(result: str) -> frozenset[str]:
    """Return the codes and long numbers of a result, folded, by which an answer shows that it knows the result."""
    return frozenset(value.casefold() for value in _find_values(_DASH.sub("-", " ".join(_read_values(result)))))


def _read_words(result: str) -> frozenset[str]:
    """Return the longer words and the numbers of a result without codes, folded. Of JSON, only the values count."""
    words = (word.casefold() for word in _WORD.findall(" ".join(_read_values(result))))
    return frozenset(word for word in words if len(word) >= _MIN_WORD or word.isdigit())


def _read_values(result: str) -> Iterable[str]:
    text = result.strip()
    parsed = read_value(text, 0)
    rest: list[Json] = [parsed[0] if parsed and parsed[1] == len(text) else text]
    while rest:
        one = rest.pop()
        if is_object(one):
            rest.extend(one.values())
        elif is_list(one):
            rest.extend(one)
        elif one is not None and not isinstance(one, bool):
            yield one if isinstance(one, str) else write(one)
