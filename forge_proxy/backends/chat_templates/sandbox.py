"""Renders chat templates of unknown origin: in Jinja's sandbox, with limits on operations, output and memory.

A template is a program. It runs in a process of the pool, which also limits its time.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from forge_proxy.backends.chat_templates import MAX_TEMPLATE, RenderError
from forge_proxy.core.rescue.templates import Conversation

_TODAY = datetime(2026, 1, 1, tzinfo=UTC)
"""The date in rendered prompts. It is always the same one, so that what is learned from a template is as well."""
_MAX_OUTPUT = 400_000
_MAX_MEMORY = 256 * 1024 * 1024
"""Bytes that rendering may add to the memory of its process."""
_MAX_OPERAND = 100_000
"""Maximum characters or items that one operation of a template may repeat or format."""


class _Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks the text to train on; its content is rendered."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with limits on the operations that make long strings."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # Kimi's templates collect messages in a list of their own; the values that they receive are copies.
        return (isinstance(obj, list) and attr == "append") or super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        too_large = operator == "**" or (
            operator == "*" and any(isinstance(n, int) and abs(n) > _MAX_OPERAND for n in (left, right))
        )
        if too_large or (operator == "%" and isinstance(left, str)):
            raise RenderError(f"the operator {operator} is not available for these values")
        return super().call_binop(context, operator, left, right)


def compile_template(source: str) -> Callable[[Conversation], str]:
    """Return a function that renders a conversation. Raises `RenderError`, as the function does."""
    if len(source) > MAX_TEMPLATE:
        raise RenderError(f"longer than {MAX_TEMPLATE} characters")
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
    environment.filters["tojson"] = _to_json
    environment.filters["from_json"] = environment.filters["fromjson"] = json.loads
    helpers: dict[str, Any] = {"raise_exception": _raise, "strftime_now": _strftime}
    with _as_render_error():
        template = environment.from_string(source, globals=helpers)

    def render(conversation: Conversation) -> str:
        tools = json.dumps(conversation.tools)
        values: dict[str, Any] = {
            "messages": json.loads(json.dumps(conversation.messages)),
            "tools": json.loads(tools),
            "functions": tools,
            "datetime": _strftime("%Y-%m-%d"),
            "add_generation_prompt": conversation.opens_response,
            "bos_token": "",
            "eos_token": "",
        }
        with _as_render_error():
            return _join(template.generate(values))

    return render


@contextmanager
def limit_memory() -> Generator[None]:
    """Limit the memory of this process while the context is open. Only for a process of the pool."""
    limit, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError, IndexError):  # no /proc on macOS; a stricter limit stays
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _MAX_MEMORY, hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


@contextmanager
def _as_render_error() -> Generator[None]:
    """Turn any failure of a template into a `RenderError`: its code may fail in any way."""
    try:
        yield
    except RenderError:
        raise
    except (TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError) as error:
        raise RenderError(str(error)[:200] or type(error).__name__) from error
    except (TypeError, ValueError, AssertionError, SyntaxError) as error:
        raise RenderError(str(error)[:200] or type(error).__name__) from error


def _join(pieces: Iterator[str]) -> str:
    written: list[str] = []
    length = 0
    for piece in pieces:
        written.append(piece)
        length += len(piece)
        if length > _MAX_OUTPUT:
            raise RenderError(f"renders more than {_MAX_OUTPUT} characters")
    return "".join(written)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Serialize as the servers do: without HTML escapes, unlike Jinja's own filter."""
    width = min(indent, 16) if isinstance(indent, int) else None
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=width, separators=separators, sort_keys=sort_keys, default=list
    )


def _raise(message: str) -> None:
    raise RenderError(str(message)[:200])


def _strftime(form: str) -> str:
    return _TODAY.strftime(str(form)[:100])
