"""Shows where in a file a finding is: the function or class around it, with the line marked."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence

_MARK = "# <-- ERROR"
_AROUND = 3
"""Lines around a finding in a file that is not valid Python, or outside functions and classes."""
_MAX_LINES = 40
"""Lines of a scope that are shown: its header, and those around the finding."""


def render_source_context(source: str, line: int) -> str | None:
    """Return the lines around a finding with their numbers; None if the file has no such line."""
    lines = source.splitlines()
    if not 1 <= line <= len(lines):
        return None
    first, last = _find_scope(source, line) or (max(1, line - _AROUND), min(len(lines), line + _AROUND))
    return "\n".join(_render(lines, _select(first, last, line), line))


def _find_scope(source: str, line: int) -> tuple[int, int] | None:
    """Return the first and the last line of the innermost function or class around a line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: tuple[int, int] | None = None
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            if first <= line <= last:
                found = first, last
    return found


def _select(first: int, last: int, line: int) -> Sequence[int]:
    if last - first < _MAX_LINES:
        return range(first, last + 1)
    start = max(first + 1, line - _MAX_LINES // 2)
    return [first, *range(start, min(last, start + _MAX_LINES - 2) + 1)]


def _render(lines: Sequence[str], numbers: Sequence[int], marked: int) -> Iterator[str]:
    before = numbers[0] - 1
    for number in numbers:
        if number != before + 1:
            yield "      ..."
        before = number
        text = f"{number:>5} {lines[number - 1]}".rstrip()
        yield f"{text}  {_MARK}" if number == marked else text
