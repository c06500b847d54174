"""The declaration of a workflow: its tools, their order, and its terminal tools. Values, validated when created."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.guardrails.schema.compiled import compile_schema, find_schema_flaw
from forge_proxy.core.jsontypes import JsonObject, is_object
from forge_proxy.core.workflow.errors import InvalidWorkflow
from forge_proxy.core.workflow.signatures import find_signature_fault

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The tool names that the strictest of the common model servers accepts."""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """A tool that must have succeeded before; with `match_arg`, with the same value of that argument."""

    tool: str
    match_arg: str | None = None

    def __str__(self) -> str:
        return f"{self.tool} with the same {self.match_arg}" if self.match_arg else self.tool

    @classmethod
    def parse(cls, declared: str | Mapping[str, str] | Prerequisite, at: str) -> Prerequisite:
        """Parse a declared prerequisite: `"read_file"` or `{"tool": "read_file", "match_arg": "path"}`.

        Raises `InvalidWorkflow` with the path `at` for anything else.
        """
        match declared:
            case Prerequisite():
                return declared
            case str():
                return cls(declared)
            case {"tool": str(tool), **rest} if set(rest) <= {"match_arg"}:
                return cls(tool, rest.get("match_arg"))
            case _:
                raise InvalidWorkflow(at, 'expected a tool\'s name or {"tool": …, "match_arg": …}')


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool and the function that executes it.

    `callable` takes the arguments by name and may be async; None means that the tool is executed elsewhere. Its result
    is sent to the model: text unchanged, anything else as JSON.
    """

    spec: ToolSpec
    callable: Callable[..., Any] | None = None
    prerequisites: Sequence[str | Mapping[str, str] | Prerequisite] = ()

    @property
    def name(self) -> str:
        """The name by which the model calls the tool."""
        return self.spec.name

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        prerequisites: Sequence[str | Mapping[str, str] | Prerequisite] = (),
    ) -> ToolDef:
        """Build a tool from a Python function.

        The schema comes from the type hints. The descriptions of the tool and its parameters come from the docstring
        (Google, NumPy or Sphinx style) or from `Annotated[…, Field(description=…)]`. The function receives its
        arguments in the types of its hints: models, dataclasses, enums. It may be async or a bound method. Raises
        `InvalidWorkflow`, which names the parameter, for a parameter type that cannot be expressed in JSON.
        """
        from forge_proxy.core.workflow.function_tool import derive_tool  # with its docstring parser

        return cls(*derive_tool(function, name, description), prerequisites)


@dataclass(frozen=True, slots=True, init=False)
class Workflow:
    """A task and its tools. Raises `InvalidWorkflow` if the declaration is inconsistent.

    `tools` is a list, or a dict keyed by name. `required_steps` must succeed, in any order, before a terminal tool may
    be called. `system_prompt_template` may contain `{placeholders}`; other braces are not changed.
    """

    name: str
    description: str
    tools: Mapping[str, ToolDef]
    required_steps: Sequence[str]
    terminal_tool: str | Sequence[str]
    system_prompt_template: str
    terminal_tools: frozenset[str] = field(init=False)
    prerequisites: Mapping[str, tuple[Prerequisite, ...]] = field(init=False)
    """The prerequisites of each tool, by its name."""

    def __init__(
        self,
        name: str,
        description: str,
        tools: Mapping[str, ToolDef] | Iterable[ToolDef],
        required_steps: Sequence[str],
        terminal_tool: str | Sequence[str],
        system_prompt_template: str,
    ) -> None:
        ends = (terminal_tool,) if isinstance(terminal_tool, str) else tuple(terminal_tool)
        if isinstance(required_steps, str):
            raise InvalidWorkflow("required_steps", f"expected a list, as [{required_steps!r}]")
        values = {
            "name": name,
            "description": description,
            "tools": _by_name(tools),
            "required_steps": tuple(required_steps),
            "terminal_tool": terminal_tool,
            "system_prompt_template": system_prompt_template,
            "terminal_tools": frozenset(ends),
        }
        for field_name, value in values.items():
            object.__setattr__(self, field_name, value)
        _check_tools(self.tools)
        _check_names("required_steps", self.required_steps, self.tools)
        _check_names("terminal_tool", ends, self.tools)
        if not ends:
            raise InvalidWorkflow("terminal_tool", "name at least one tool that ends the workflow")
        for place, step in enumerate(self.required_steps):
            if step in self.terminal_tools:
                raise InvalidWorkflow(f"required_steps[{place}]", f"{step} is a terminal tool, which ends the workflow")
        object.__setattr__(self, "prerequisites", dict(self._parse_prerequisites()))
        _check_cycles(self.prerequisites)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools, in order of declaration."""
        return tuple(self.tools)

    def get_tool_specs(self) -> list[ToolSpec]:
        """Return the tools as they are offered to the model."""
        return [tool.spec for tool in self.tools.values()]

    def get_callable(self, tool_name: str) -> Callable[..., Any] | None:
        """Return the function of a tool; None if it is executed elsewhere. Raises `KeyError` for an unknown tool."""
        return self.tools[tool_name].callable

    def build_system_prompt(self, /, **values: str) -> str:
        """Return the system prompt with its placeholders replaced. Raises `InvalidWorkflow` if a value is missing."""

        def fill(found: re.Match[str]) -> str:
            at = f"prompt_vars.{found[1]}"
            if found[1] not in values:
                raise InvalidWorkflow(at, "the system prompt has this placeholder: pass a value")
            value = values[found[1]]
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # not all are typed
                raise InvalidWorkflow(at, f"expected text, got {value!r}")
            return value

        return _PLACEHOLDER.sub(fill, self.system_prompt_template)

    def _parse_prerequisites(self) -> Iterator[tuple[str, tuple[Prerequisite, ...]]]:
        for name, tool in self.tools.items():
            needed: list[Prerequisite] = []
            if isinstance(tool.prerequisites, str):
                raise InvalidWorkflow(f"tools.{name}.prerequisites", f"expected a list, as [{tool.prerequisites!r}]")
            for place, declared in enumerate(tool.prerequisites):
                at = f"tools.{name}.prerequisites[{place}]"
                one = Prerequisite.parse(declared, at)
                _check_names(at, (one.tool,), self.tools)
                if one.tool in self.terminal_tools:
                    raise InvalidWorkflow(at, f"{one.tool} is a terminal tool: nothing comes after it")
                for each in (name, one.tool):
                    if one.match_arg and not _has_argument(self.tools[each].spec.parameters, one.match_arg):
                        raise InvalidWorkflow(f"{at}.match_arg", f"{each} has no argument {one.match_arg!r}")
                needed.append(one)
            yield name, tuple(needed)


def _by_name(tools: Mapping[str, ToolDef] | Iterable[ToolDef]) -> Mapping[str, ToolDef]:
    """Return the tools by name. Raises `InvalidWorkflow` for a duplicate name or a value that is not a `ToolDef`."""
    if isinstance(tools, Mapping):
        named = cast("Mapping[str, ToolDef]", tools)
        for key, tool in named.items():
            _check_type(f"tools.{key}", tool)
        return named
    found: dict[str, ToolDef] = {}
    for place, tool in enumerate(tools):
        _check_type(f"tools[{place}]", tool)
        if tool.name in found:
            raise InvalidWorkflow(f"tools[{place}]", f"tools[{[*found].index(tool.name)}] is called {tool.name!r} too")
        found[tool.name] = tool
    return found


def _check_type(at: str, tool: object) -> None:
    if not isinstance(tool, ToolDef):
        hint = "; create one with ToolDef.from_function" if callable(tool) else ""
        raise InvalidWorkflow(at, f"expected a ToolDef, got {type(tool).__name__}{hint}")


def _check_tools(tools: Mapping[str, ToolDef]) -> None:
    if not tools:
        raise InvalidWorkflow("tools", "a workflow needs at least one tool")
    for key, tool in tools.items():
        if key != tool.name:
            raise InvalidWorkflow(f"tools.{key}", f"the tool is called {tool.name!r}: key and name must be equal")
        if not _NAME.fullmatch(tool.name):
            raise InvalidWorkflow(f"tools.{key}", "a name is 1 to 64 letters, digits, _, - or .")
        if compile_schema(tool.spec.parameters) is None:
            why = find_schema_flaw(tool.spec.parameters) or "it cannot be compiled"
            raise InvalidWorkflow(f"tools.{key}.parameters", f"not a valid JSON Schema: {why}")
        function: object = tool.callable
        if function is not None and not callable(function):
            raise InvalidWorkflow(f"tools.{key}.callable", f"expected a function, got {type(function).__name__}")
        if tool.callable is not None and (fault := find_signature_fault(tool.spec, tool.callable)):
            raise InvalidWorkflow(f"tools.{key}.callable", fault)


def _check_names(at: str, names: Sequence[str], tools: Mapping[str, ToolDef]) -> None:
    for place, name in enumerate(names):
        where = at if len(names) == 1 else f"{at}[{place}]"
        if name not in tools:
            raise InvalidWorkflow(where, f"no tool {name!r}; available: {', '.join(tools)}")
        if name in names[:place]:
            raise InvalidWorkflow(where, f"{name} is listed twice")


def _has_argument(parameters: JsonObject | bool, name: str) -> bool:
    """Return whether a schema allows an argument. A schema without `properties` allows any."""
    if isinstance(parameters, bool):
        return parameters
    properties = parameters.get("properties")
    return name in properties if is_object(properties) else True


def _check_cycles(prerequisites: Mapping[str, tuple[Prerequisite, ...]]) -> None:
    """Raise `InvalidWorkflow` for cyclic prerequisites: such tools could never be called."""
    free: set[str] = set()
    while ready := {
        name for name, needed in prerequisites.items() if name not in free and all(one.tool in free for one in needed)
    }:
        free |= ready
    stuck = [name for name in prerequisites if name not in free]
    if stuck:
        raise InvalidWorkflow(f"tools.{stuck[0]}.prerequisites", f"{', '.join(stuck)} require each other in a cycle")
