"""Replaces the code of functions of an imported module by the code of a changed source."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


def replace_code(module: ModuleType, source: bytes) -> None:
    """Give each function the code that it has in this source, in which all functions stand on the lines of before.

    Raises `LookupError` if no function differs.
    """
    changed = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _outermost(compile(source, str(module.__file__), "exec"))
    }
    differ = [one for one in _functions(module.__dict__, module) if one.__code__ != changed[_key(one)]]
    if not differ:
        raise LookupError(f"{module.__name__}: no function to replace")
    for function in differ:
        function.__code__ = changed[_key(function)]


def _key(function: FunctionType) -> tuple[str, int]:
    return function.__code__.co_qualname, function.__code__.co_firstlineno


def _outermost(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions and methods, but not of functions inside these."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_class_body = not constant.co_flags & 0x02  # CO_NEWLOCALS
            yield from _outermost(constant) if is_class_body else (constant,)


def _functions(names: dict[str, object], module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods in the source of a module, also those behind a decorator."""
    for value in list(names.values()):
        for found in (value, *(getattr(value, name, None) for name in ("__wrapped__", "__func__", "fget", "func"))):
            if isinstance(found, FunctionType) and found.__code__.co_filename == module.__file__:
                yield found
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from _functions(dict(vars(value)), module)
