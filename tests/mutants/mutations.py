"""The mutations of a Python source: a comparison or a condition reversed, a number off by one, a result dropped.

Each replaces one expression inside a function, so that lines keep their numbers and the function can be replaced in a
program that runs (`tests/mutants/replacing.py`). Annotations, default values and f-strings are skipped.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One expression and what replaces it. `start` and `end` are offsets in the UTF-8 source."""

    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source. Its lines keep their numbers, also after an expression of several lines."""
        lines = self.before.count("\n") - self.after.count("\n")
        after = "".join(("(", self.after, "\n" * lines, ")")) if lines else self.after
        return source[: self.start] + after.encode() + source[self.end :]


def find_mutations(source: bytes) -> list[Mutation]:
    """Return every mutation of a source, in the order of its lines."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda one: (one.start, one.end, one.after))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._source = source
        self._depth = 0
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_body(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_body(node)

    def _visit_body(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._replace(node, f"({left} {_COMPARISONS[type(node.ops[0])]} {right})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " or " if isinstance(node.op, ast.And) else " and "
        self._replace(node, f"({word.join(f'({self._text(value)})' for value in node.values)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._replace(node, str(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._replace(node.value, "None")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._replace(node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replace(node.test, f"(not ({self._text(node.test)}))")
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip it: before Python 3.12 the offsets of what is inside are wrong."""

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        text = self._source[start:end].decode()
        return f"({text})" if isinstance(node, ast.NamedExpr) else text

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, node: ast.expr, after: str) -> None:
        if self._depth:
            start, end = self._span(node)
            self.found.append(Mutation(node.lineno, start, end, self._source[start:end].decode(), after))
