"""Folds a matrix of cases into one test, which runs them all and reports each that fails.

Each test costs pytest a millisecond or two, and its collection again in every worker: much for thousands of small cases
of one property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, iscoroutinefunction, signature
from itertools import product
from typing import Any, cast

import pytest


@dataclass(frozen=True)
class _Case:
    name: str
    arguments: dict[str, object]


def folded(test: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a test, which may be a coroutine function, above its `pytest.mark.parametrize`.

    All cases share the fixtures of one test.
    """
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    matrix = [list(_cases(mark)) for mark in marks if mark.name == "parametrize"]
    assert matrix, "nothing to fold"
    assert all(matrix), "a test without cases proves nothing"
    combinations = [_Combination(cases) for cases in product(*matrix)]

    def run_all(**fixtures: object) -> None:
        for combination in combinations:
            with combination:
                test(**combination.arguments, **fixtures)
        _raise_failures(combinations)

    async def run_all_async(**fixtures: object) -> None:
        for combination in combinations:
            with combination:
                await test(**combination.arguments, **fixtures)
        _raise_failures(combinations)

    decorated = cast("Any", wraps(test)(run_all_async if iscoroutinefunction(test) else run_all))
    decorated.pytestmark = [mark for mark in marks if mark.name != "parametrize"]
    parameters = signature(test).parameters
    decorated.__signature__ = Signature(
        [parameter for name, parameter in parameters.items() if name not in combinations[0].arguments]
    )
    return decorated


class _Combination:
    """One case of each matrix. As a context manager it keeps the failure of its test, and the next one runs."""

    def __init__(self, cases: Sequence[_Case]) -> None:
        self._name = ", ".join(case.name for case in cases)
        self.arguments = {name: value for case in cases for name, value in case.arguments.items()}
        self.failure: Exception | None = None

    def __enter__(self) -> None:
        self.failure = None

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> bool:
        if not isinstance(failure, Exception):
            return False
        failure.add_note(f"in the case: {self._name}")
        self.failure = failure
        return True


def _raise_failures(combinations: Sequence[_Combination]) -> None:
    if failures := [one.failure for one in combinations if one.failure]:
        raise ExceptionGroup(f"{len(failures)} of {len(combinations)} cases failed", failures)


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
