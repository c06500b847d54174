"""Proposes a form from the segments: where name, arguments and values stand, and the literals between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from forge_proxy.core.jsontypes import Json, is_object, read_object, read_value, write
from forge_proxy.core.rescue.grammar.learned_form import (
    ANY_NUMBER,
    BY_KEY,
    SAME_KEY,
    ArgumentStyle,
    Encoding,
    LearnedForm,
)
from forge_proxy.core.rescue.templates.probes import (
    CALLS,
    FIRST,
    NUMBER,
    ONE,
    OTHER,
    SECOND,
    STRING,
    STRING_2,
    VALUES,
)
from forge_proxy.core.rescue.templates.segments import shared_prefix, shared_suffix

_QUOTES = ('"', "'", '<|"|>', "<escape>")
"""Quotes that the reader of literals knows."""
_DIGITS = re.compile(r"\d+")


def propose_form(segments: Mapping[str, str]) -> LearnedForm | None:
    """Return a form that fits the segments; None if there is none."""
    return _propose_json(segments) or _propose_arguments(segments)


def _propose_json(segments: Mapping[str, str]) -> LearnedForm | None:
    """Return the form of calls whose arguments are a JSON object."""
    ((_, args),) = CALLS["both"]
    segment = segments["both"]
    for start, end, value in _objects(segment):
        if is_object(value) and (paths := _find_paths(value, args)):
            literals = _call_literals(segments, segment[:start], segment[end:], "object")
            return LearnedForm("object", *literals, *paths)
        if value == args and (name := segment.rfind(FIRST, 0, start)) >= 0:
            literals = _call_literals(segments, segment[:name], segment[end:], "named")
            between = segment[name + len(FIRST) : start]
            return LearnedForm("named", *literals, name_closes=_count(between, _between_in_second(segments)))
    return None


def _objects(segment: str) -> Iterator[tuple[int, int, Json]]:
    """Yield the JSON objects that are not inside another one."""
    at = segment.find("{")
    while at >= 0:
        read = read_value(segment, at)
        if read:
            yield at, read[1], read[0]
        at = segment.find("{", read[1] if read else at + 1)


def _find_paths(value: Json, args: Json) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the keys that lead to the name and to the arguments."""
    if not is_object(value):
        return None
    if value == {FIRST: args}:
        return BY_KEY, ()
    found = dict(_walk(value))
    name = next((path for path, item in found.items() if item == FIRST), None)
    arguments = next((path for path, item in found.items() if item == args or _encodes(item, args)), None)
    return (name, arguments) if name and arguments else None


def _encodes(item: Json, args: Json) -> bool:
    return isinstance(item, str) and read_object(item) == args


def _walk(value: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    if not is_object(value):
        return
    for key, item in value.items():
        yield (*path, key), item
        yield from _walk(item, (*path, key))


def _span_of(segment: str, shape: str, name: str, args: Json) -> tuple[int, int] | None:
    """Return where a call starts and ends in a segment, without the literals around it."""
    for start, end, value in _objects(segment):
        if shape == "object" and is_object(value) and (name in str(value)):
            return start, end
        if shape == "named" and value == args:
            return segment.rfind(name, 0, start), end
    return None


def _call_literals(segments: Mapping[str, str], before: str, after: str, shape: str) -> tuple[str, str, str, str]:
    """Return what opens a block and a call, and what closes a call and a block."""
    segment = segments.get("two", "")
    spans = [_span_of(segment, shape, name, args) for name, args in CALLS["two"]]
    if spans[0] is None or spans[1] is None or spans[0][1] > spans[1][0]:
        return "", before, after, ""
    return _split_literals(before, segment[spans[0][1] : spans[1][0]], after)


def _split_literals(before: str, between: str, after: str) -> tuple[str, str, str, str]:
    """Split the text before, between and after calls into what belongs to the block and to each call."""
    closes = shared_prefix(between, after)
    opens = shared_suffix(before, between)
    if not opens.strip() and (counted := _counted_suffix(before, between)):
        opens, start = counted
        return before[:start], opens, closes, after[len(closes) :]
    if len(closes) + len(opens) > len(between):  # a separator that both contain
        closes = closes.rstrip()
        opens = opens[-(len(between) - len(closes)) :] if len(between) > len(closes) else ""
    return before[: len(before) - len(opens)], opens, closes, after[len(closes) :]


def _counted_suffix(before: str, between: str) -> tuple[str, int] | None:
    """Return what opens a call if it contains the number of the call, and its start in `before`."""
    first, second = _DIGITS.sub(ANY_NUMBER, before), _DIGITS.sub(ANY_NUMBER, between)
    opens = shared_suffix(first, second)
    if ANY_NUMBER not in opens:
        return None
    return opens, len(before) - len(opens)


def _between_in_second(segments: Mapping[str, str]) -> str:
    """Return the text between the name and the arguments of a second call."""
    segment = segments.get("two", "")
    name = segment.rfind(SECOND)
    start = segment.find("{", name)
    return segment[name + len(SECOND) : start] if 0 <= name < start else ""


def _count(first: str, second: str) -> str:
    """Return a literal in which digits that differ between calls are replaced by a placeholder."""
    if first == second or _DIGITS.sub("", first) != _DIGITS.sub("", second) or not second:
        return first
    return _DIGITS.sub(ANY_NUMBER, first)


def _propose_arguments(segments: Mapping[str, str]) -> LearnedForm | None:
    """Return the form of calls whose arguments are written one by one."""
    strings, string = segments.get("strings", ""), segments["string"]
    places = _find_in_order(strings, (FIRST, ONE, STRING, OTHER, STRING_2))
    alone = _find_in_order(string, (FIRST, ONE, STRING))
    number = _find_in_order(segments.get("number", ""), (FIRST, ONE, str(NUMBER)))
    if not places or not alone or not number:
        return None
    after_name, after_key, between = places[1:4]
    tail, number_key, number_tail = alone[3], number[2], number[3]
    between, tail, number_tail = (text.replace(ONE, SAME_KEY) for text in (between, tail, number_tail))
    value_closes = _trim_space(shared_prefix(between, tail))
    argument_opens = shared_suffix(after_name, between[len(value_closes) :])
    closes = tail[len(value_closes) :]
    numbers_close = number_tail[: len(number_tail) - len(closes)] if number_tail.endswith(closes) else value_closes
    string_style = ArgumentStyle(argument_opens, after_key, value_closes, "text")
    number_opens = _name_opens(number[1], after_name, argument_opens)
    number_style = ArgumentStyle(number_opens, number_key, numbers_close, "text")
    literals = _argument_literals(segments, places[0], tail, value_closes)
    return LearnedForm(
        "arguments",
        *literals,
        name_closes=_count_names(after_name, argument_opens, segments),
        styles=_with_other_types(_styles(string_style, number_style), after_name, segments),
    )


def _trim_space(literal: str) -> str:
    return literal.rstrip() if literal.strip() else literal


def _count_names(after_name: str, argument_opens: str, segments: Mapping[str, str]) -> str:
    first = after_name[: len(after_name) - len(argument_opens)]
    places = _find_in_order(segments.get("two", ""), (SECOND, ONE))
    second = places[1][: len(places[1]) - len(argument_opens)] if places else ""
    return _count(first, second)


def _find_in_order(segment: str, words: tuple[str, ...]) -> list[str] | None:
    """Return the texts before, between and after these words, the first of which is the name of a call; None if they
    do not occur in this order.
    """
    pieces: list[str] = []
    for word in words:
        before, found, segment = segment.partition(word)
        if not found:
            return None
        pieces.append(before)
    if (repeated := pieces[1].rfind(words[0])) >= 0:  # a header with the name precedes the call
        pieces[:2] = pieces[1][:repeated], pieces[1][repeated + len(words[0]) :]
    return [*pieces, segment]


def _name_opens(between: str, after_name: str, name_opens: str) -> str:
    """Return what opens an argument of another type, from the text between the name of the call and of the argument."""
    return between.removeprefix(after_name[: len(after_name) - len(name_opens)])


def _styles(strings: ArgumentStyle, numbers: ArgumentStyle) -> tuple[ArgumentStyle, ...]:
    """Return how strings and other values are written."""
    if strings == numbers:
        return (strings,)
    quote = strings.opens.removeprefix(numbers.opens)
    if strings.opens.startswith(numbers.opens) and quote in _QUOTES:
        return (replace(numbers, encoding="literal"),)
    others: Encoding = "text" if numbers.closes.strip() else "literal"
    # The opening of one may be the beginning of the other's.
    return _by_length([replace(strings, encoding="string"), replace(numbers, encoding=others)])


def _by_length(styles: Iterable[ArgumentStyle]) -> tuple[ArgumentStyle, ...]:
    return tuple(sorted(styles, key=lambda style: len(style.opens), reverse=True))


def _with_other_types(
    styles: tuple[ArgumentStyle, ...], after_name: str, segments: Mapping[str, str]
) -> tuple[ArgumentStyle, ...]:
    """Add how values of other types are written, if the literals around the name of an argument contain its type."""
    text = next((style for style in styles if style.encoding == "string"), None)
    if text is None or SAME_KEY in text.closes or any(style.encoding == "literal" for style in styles):
        return styles
    known = {(style.name_opens, style.opens): style for style in styles}
    for name, value in VALUES.items():
        before, _, written = segments.get(name, "").rpartition(FIRST)[2].partition(ONE)
        opens, found, _ = written.partition(write(value))
        name_opens = _name_opens(before, after_name, text.name_opens)
        if found and name != "tricky" and opens.endswith(text.opens[-1:]):
            known.setdefault((name_opens, opens), ArgumentStyle(name_opens, opens, text.closes, "text"))
    return _by_length(known.values())


def _argument_literals(
    segments: Mapping[str, str], before: str, tail: str, value_closes: str
) -> tuple[str, str, str, str]:
    after = tail[len(value_closes) :]
    rest = segments.get("two", "").partition(STRING)[2]
    name = rest.rfind(SECOND, 0, rest.find(ONE, rest.find(SECOND)))
    if name < 0:
        return "", before, after, ""
    return _split_literals(before, rest[:name].replace(ONE, SAME_KEY)[len(value_closes) :], after)
