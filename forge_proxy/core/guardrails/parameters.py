"""Which parameter a model meant by a name that its schema does not have. Only names are looked at here."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_SEPARATORS = re.compile(r"[-_\s]+")
_MIN_LENGTH = 4
_MAX_NAMES = 256
_MAX_LENGTH = 100


class ResolvedParameter(NamedTuple):
    """A name as it was said, and the parameter that it stands for."""

    said: str
    name: str
    sure: bool
    """Whether the two differ by no more than case, `-`, `_` and spaces."""


def plain(name: str) -> str:
    """What stays of a name without case and separators: `file_path`, `filePath` and `File-Path` are one."""
    return _SEPARATORS.sub("", name).casefold()


def resolve_parameter(said: str, known: Collection[str]) -> str:
    """The one known name that `said` is, exactly or but for case and separators; else `said`."""
    if said in known:
        return said
    alike = [name for name in known if plain(name) == plain(said)]
    return alike[0] if len(alike) == 1 else said


def match_names(said: Iterable[str], missing: Iterable[str], nearly: Iterable[str]) -> Iterator[ResolvedParameter]:
    """What each unknown name means among the missing parameters, where only one is alike or, of `nearly`, near.

    Near is one letter more, less, other, or two in the other order, in names of four letters at least.
    """
    unknown = _plain_forms(name for name in said if len(name) < _MAX_LENGTH)
    sure = dict(_pairs(unknown, _plain_forms(missing), lambda one, other: one == other != ""))
    yield from (ResolvedParameter(one, name, sure=True) for one, name in sure.items())
    unknown = {name: form for name, form in unknown.items() if name not in sure}
    left = _plain_forms(name for name in nearly if name not in sure.values())
    yield from (ResolvedParameter(one, name, sure=False) for one, name in _pairs(unknown, left, near))


def _plain_forms(names: Iterable[str]) -> dict[str, str]:
    return {name: plain(name) for name in islice(names, _MAX_NAMES)}


def _pairs(said: dict[str, str], names: dict[str, str], same: Callable[[str, str], bool]) -> Iterator[tuple[str, str]]:
    """Those that fit each other and nobody else, by their plain forms."""
    for one, form in said.items():
        fitting = [name for name, other in names.items() if same(form, other)]
        if len(fitting) == 1 and sum(same(other, names[fitting[0]]) for other in said.values()) == 1:
            yield one, fitting[0]


def near(one: str, other: str) -> bool:
    """Whether two plain names differ by one slip. Those that differ in a digit are two: `value1`, `value2`."""
    if min(len(one), len(other)) < _MIN_LENGTH or abs(len(one) - len(other)) > 1 or one == other:
        return False
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    a, b = one[at:], other[at:]
    swapped = a[:2] == b[:2][::-1] and a[2:] == b[2:]
    slip = a[1:] == b or a == b[1:] or a[1:] == b[1:] or swapped
    return slip and re.findall(r"\d", one) == re.findall(r"\d", other)
