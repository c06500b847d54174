"""Folds a matrix of cases into one test, which runs them all and reports each that fails.

Each test costs pytest a millisecond or two, and its collection again in every worker: much for thousands of small cases
of one property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Signature
from itertools import product
from typing import Any, cast

import pytest


@dataclass(frozen=True)
class _Case:
    name: str
    arguments: dict[str, object]


def folded(test: Callable[..., None]) -> Callable[[], None]:
    """Decorate a test above its `pytest.mark.parametrize`. It takes no fixtures."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    matrix = [list(_cases(mark)) for mark in marks if mark.name == "parametrize"]
    assert matrix, "nothing to fold"
    assert all(matrix), "a test without cases proves nothing"

    @wraps(test)
    def run_all() -> None:
        combinations = list(product(*matrix))
        failures = [failure for cases in combinations if (failure := _run(test, cases))]
        if failures:
            raise ExceptionGroup(f"{len(failures)} of {len(combinations)} cases failed", failures)

    changed = cast("Any", run_all)
    changed.pytestmark = [mark for mark in marks if mark.name != "parametrize"]
    changed.__signature__ = Signature()
    return run_all


def _run(test: Callable[..., None], cases: Sequence[_Case]) -> Exception | None:
    arguments = {name: value for case in cases for name, value in case.arguments.items()}
    try:
        test(**arguments)
    except Exception as failure:  # noqa: BLE001  each failure is reported, with its case
        failure.add_note(f"in the case: {', '.join(case.name for case in cases)}")
        return failure
    return None


def _cases(mark: pytest.Mark) -> Iterator[_Case]:
    given, rows = mark.args[:2]
    names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
    rows = list(rows)
    ids = _ids(mark.kwargs.get("ids"), rows)
    for row, shown in zip(rows, ids, strict=True):
        values = getattr(row, "values", None)  # of pytest.param
        if not isinstance(values, tuple):
            values = (row,) if len(names) == 1 else tuple(row)
        name = getattr(row, "id", None) or shown or repr(values)
        yield _Case(str(name), dict(zip(names, values, strict=True)))


def _ids(ids: Callable[[object], object] | Iterable[object] | None, rows: Sequence[object]) -> list[object]:
    if ids is None:
        return [None] * len(rows)
    if callable(ids):
        return [", ".join(str(ids(value)) for value in (row if isinstance(row, tuple) else (row,))) for row in rows]
    return list(ids)
