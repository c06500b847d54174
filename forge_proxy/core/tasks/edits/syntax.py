"""Whether Python source can be parsed."""

from __future__ import annotations

import ast
import warnings


def find_syntax_fault(source: str) -> str | None:
    """Return why Python source cannot be parsed, with its line; None if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as invalid escapes, which are not faults
        try:
            ast.parse(source)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        except (RecursionError, MemoryError, ValueError) as error:
            return f"it cannot be parsed: {type(error).__name__}"
    return None


def is_python(path: str) -> bool:
    """Whether a file is Python source, by its name."""
    return path.endswith((".py", ".pyi"))
