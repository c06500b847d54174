"""Resolution of a parameter name that is not in the schema to the intended one, by names only."""

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
    """A name as the model wrote it, and the parameter that it resolves to."""

    written_name: str
    name: str
    is_exact: bool
    """Whether the two differ only in case, `-`, `_` and spaces."""


def normalize(name: str) -> str:
    """Return a name without case and separators: `file_path`, `filePath` and `File-Path` become equal."""
    return _SEPARATORS.sub("", name).casefold()


def resolve_parameter(name: str, known: Collection[str]) -> str:
    """Return the only known name that equals `name`, ignoring case and separators; otherwise `name`."""
    if name in known:
        return name
    alike = [other for other in known if normalize(other) == normalize(name)]
    return alike[0] if len(alike) == 1 else name


def match_names(names: Iterable[str], missing: Iterable[str], nearly: Iterable[str]) -> Iterator[ResolvedParameter]:
    """Yield the missing parameter for each unknown name, if exactly one is equal or, among `nearly`, near.

    Near means one letter inserted, deleted or replaced, or two transposed, in names of at least four letters.
    """
    unknown = _normalize_all(name for name in names if len(name) < _MAX_LENGTH)
    exact = dict(_pairs(unknown, _normalize_all(missing), lambda one, other: one == other != ""))
    yield from (ResolvedParameter(one, name, is_exact=True) for one, name in exact.items())
    unknown = {name: form for name, form in unknown.items() if name not in exact}
    remaining = _normalize_all(name for name in nearly if name not in exact.values())
    yield from (ResolvedParameter(one, name, is_exact=False) for one, name in _pairs(unknown, remaining, is_near))


def _normalize_all(names: Iterable[str]) -> dict[str, str]:
    return {name: normalize(name) for name in islice(names, _MAX_NAMES)}


def _pairs(
    unknown: dict[str, str], names: dict[str, str], same: Callable[[str, str], bool]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs whose normalized forms match each other and no other name."""
    for one, form in unknown.items():
        fitting = [name for name, other in names.items() if same(form, other)]
        if len(fitting) == 1 and sum(same(other, names[fitting[0]]) for other in unknown.values()) == 1:
            yield one, fitting[0]


def is_near(one: str, other: str) -> bool:
    """Whether two normalized names differ by one typo. A different digit is not a typo: `value1`, `value2`."""
    if min(len(one), len(other)) < _MIN_LENGTH or abs(len(one) - len(other)) > 1 or one == other:
        return False
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    a, b = one[at:], other[at:]
    swapped = a[:2] == b[:2][::-1] and a[2:] == b[2:]
    has_typo = a[1:] == b or a == b[1:] or a[1:] == b[1:] or swapped
    return has_typo and re.findall(r"\d", one) == re.findall(r"\d", other)
