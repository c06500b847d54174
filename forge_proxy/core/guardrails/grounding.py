"""Arguments whose values appear nowhere in the conversation: identifiers, paths, numbers and names that are made up.

Only values that can be copied are checked. Free text, code, commands, dates, round numbers, limits and the names of
things that a call creates are the model's own words. Called by `judge_calls` if `guardrails.grounding` is on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.jsontypes import Json, JsonObject, is_list, is_object, write
from forge_proxy.core.messages import ToolCall


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MAX_EVIDENCE = 1_000_000
"""Characters of a conversation above which no value is checked, so that the event loop is not blocked for long."""
_MAX_VALUES = 30
"""Values of one response that are checked."""
_MAX_WORDS, _MAX_LENGTH = 5, 200
"""Words and characters above which a string is free text."""
_MIN_NAME, _MIN_IDENTIFIER = 8, 4
"""Minimum characters of plain words, such as a name, and of a value with digits or punctuation: shorter ones are often
codes that the model derives, such as a currency or a language.
"""
_FREE_TEXT = _word_set(
    "answer arguments body caption code command comment content description details explanation expression filter "
    "format html input instructions label markdown message new note notes old pattern prompt query question reason "
    "regex replacement script search sql subject summary task text thought thoughts title todo"
)
"""Words in the name of a parameter whose value the model writes itself."""
_DERIVED = _word_set(
    "count date day days depth duration end height hour hours last length limit line lines max min minutes month ms "
    "offset page radius seconds size start time timeout timezone top total until week width year"
)
"""Words in the name of a parameter whose value the model derives."""
_CREATES = _word_set(
    "add append book compose copy create draft export generate insert make mkdir move new post rename save touch write"
)
"""Words in the name of a tool that creates something."""
_CREATED = _word_set("branch dest destination dir directory file filename folder key name output path slug tag")
"""Words in the name of a parameter that names what such a tool creates."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PART = re.compile(r"[^\W\d_]+|\d+")
_IDENTIFIER = re.compile(r"\S*[\d/\\@._:#-]\S*\Z")
_DATE = re.compile(
    r"\d{4}-\d{2}(?:-\d{2})?(?:[T ].*)?\Z|\d{1,2}[:./]\d{1,2}(?:[:./]\d{2,4})?(?: ?[ap]m)?\Z", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
_SEPARATOR = re.compile(r"(?<=\d)[,._' ](?=\d{3}(?!\d))")


def find_ungrounded(turn: Turn, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, str]]:
    """Return the calls and their top-level parameters whose values appear neither in the conversation nor in the
    schema of the tool. The parameters are named as in the schema.
    """
    groundable = ((call, name, value) for call in calls for name, value in _groundable(turn.tool(call.tool), call))
    suspects = list(islice(groundable, _MAX_VALUES))
    if not suspects:
        return []
    conversation = _read_conversation(turn.messages)
    if conversation is None:
        return []
    schemas = {tool.name: _fold(f"{write(tool.parameters)} {tool.description}") for tool in turn.tools}
    found = [
        (call, name)
        for call, name, value in suspects
        if not _appears(value, (conversation, schemas.get(call.tool, "")))
    ]
    return list(dict.fromkeys(found))


def _groundable(tool: ToolSpec | None, call: ToolCall) -> Iterable[tuple[str, str]]:
    """Yield the parameters of a call that are in the tool's schema, each with a value of it that can be copied."""
    schema = tool.parameters if tool else None
    properties = schema.get("properties") if is_object(schema) else None
    if tool is None or not is_object(properties):
        return
    creates = bool(_CREATES & _words(tool.name))
    for name, value in (call.args() or {}).items():
        words = _words(name)
        if name not in properties or words & (_FREE_TEXT | _DERIVED) or (creates and words & _CREATED):
            continue
        for leaf in _leaves(value):
            if isinstance(leaf, str) and _can_copy(leaf.strip()):
                yield name, leaf.strip()
            elif isinstance(leaf, int | float) and not isinstance(leaf, bool) and _is_specific(leaf):
                yield name, write(int(leaf) if leaf == int(leaf) else leaf)


def _can_copy(value: str) -> bool:
    """Whether a string is a name, a path or an identifier rather than text of the model's own."""
    if not value or len(value) > _MAX_LENGTH or "\n" in value or _DATE.match(value):
        return False
    if len(value.split()) > _MAX_WORDS:
        return False
    return len(value) >= (_MIN_IDENTIFIER if _IDENTIFIER.match(value) else _MIN_NAME)


def _is_specific(number: float) -> bool:
    """Whether a number has at least three digits and is not a typical choice: a round number or a power of two."""
    if isinstance(number, float) and not number.is_integer():
        return len(_SEPARATOR.sub("", str(abs(number))).replace(".", "").strip("0")) > 2
    whole = abs(int(number))
    is_round = len(str(whole).rstrip("0")) <= 2
    return whole >= 100 and not is_round and whole & (whole - 1) != 0


def _appears(value: str, evidence: Sequence[str]) -> bool:
    """Whether a value appears in the evidence: as a whole, or each of its parts, such as the folders of a path."""
    folded = _fold(value)
    if _NUMBER.match(folded):
        return any(folded in text or folded.replace(".", ",") in text for text in evidence)
    parts = [_stem(part) for part in _PART.findall(folded) if len(part) > 2]
    if any(folded in text for text in evidence):
        return True
    return bool(parts) and all(any(part in text for text in evidence) for part in parts)


def _stem(part: str) -> str:
    """Return a word without its ending, which may be inflected; digits are kept."""
    return part if part.isdigit() else part[: max(4, len(part) - 2)]


def _read_conversation(messages: Iterable[JsonObject]) -> str | None:
    """Return all text of a conversation, folded; None if it is too long."""
    texts: list[str] = []
    length = 0
    for message in messages:
        for leaf in _leaves([message.get("content"), message.get("tool_calls")]):
            if isinstance(leaf, str):
                texts.append(leaf)
                length += len(leaf)
        if length > _MAX_EVIDENCE:
            return None
    return _fold(" ".join(texts))


def _fold(text: str) -> str:
    """Return the text in lower case and without thousands separators."""
    return _SEPARATOR.sub("", text.casefold())


def _leaves(value: Json) -> Iterable[Json]:
    """Yield the values inside objects and lists, without recursion: arguments may be nested deeply."""
    rest = [value]
    while rest:
        one = rest.pop()
        if is_object(one):
            rest.extend(one.values())
        elif is_list(one):
            rest.extend(one)
        else:
            yield one


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}
