"""The tools of submitted workflows: `execute.by` names the kind of executor, and the registry finds it.

`tools/executors.py` lists the kinds. A new kind is one class that implements `ToolExecutor`, and one line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.validation import to_invalid_request
from forge_proxy.core.workflow.run import ToolOutcome

D = TypeVar("D")
M = TypeVar("M", bound=BaseModel)


FORMER_CLIENT_KIND = "caller"
"""The former name of the kind `client`. It works until 0.3; stored runs may have it."""


class ToolUnusable(ForgeError):
    """The executor of a tool is unavailable, so the tool's declaration cannot be resolved."""

    @property
    def summary(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as submitted. `execute` selects its executor, which fills in the fields that are None."""

    name: str
    execute: JsonObject
    description: str | None = None
    parameters: JsonObject | None = None


class ToolExecutor(Protocol[D]):
    """Executes the tools of one kind. `D` is the type of its parsed `execute` objects.

    An executor with processes or connections is an asynchronous context manager, which ends them.
    """

    @property
    def kind(self) -> str:
        """The value of `execute.by`."""
        ...

    @property
    def is_external(self) -> bool:
        """Whether a call leaves the daemon, so that its start is stored before it is made."""
        ...

    def parse(self, execute: JsonObject, at: str) -> D:
        """Validate an `execute` object, whose path is `at`. Raises `InvalidRequest`."""
        ...

    async def declare(self, tool: ToolDeclaration, definition: D, at: str) -> ToolSpec:
        """Return the tool as it is presented to the model. `at` is the path of its declaration.

        Raises `InvalidRequest` for a tool that the settings do not allow, and `ToolUnusable`.
        """
        ...

    async def execute(self, definition: D, call: ToolCall, key: str, run_id: str) -> ToolOutcome | None:
        """See `workflows.tools.CallExecutor`."""
        ...


class ToolRegistry:
    """The executors by their kinds."""

    def __init__(self, *executors: ToolExecutor[Any]) -> None:
        self._executors = {executor.kind: executor for executor in executors}

    async def declare(self, tool: ToolDeclaration, at: str) -> ToolSpec:
        """Return the tool as it is presented to the model. `at` is the path of its declaration.

        Raises `InvalidRequest` for an executor that does not exist or is not allowed, and `ToolUnusable`.
        """
        executor, definition = self._resolve(tool.execute, f"{at}.execute")
        return await executor.declare(tool, definition, at)

    def bind(self, executes: Mapping[str, JsonObject], run_id: str) -> BoundTools:
        """Return the executor of one run. `executes` are the `execute` objects by tool. Raises `InvalidRequest`."""
        tools = {name: self._resolve(execute, f"workflow.tools.{name}.execute") for name, execute in executes.items()}
        return BoundTools(tools, run_id)

    def _resolve(self, execute: JsonObject, at: str) -> tuple[ToolExecutor[Any], Any]:
        kind = execute.get("by")
        kind = "client" if kind == FORMER_CLIENT_KIND else kind
        executor = self._executors.get(kind) if isinstance(kind, str) else None
        if executor is None:
            raise InvalidRequest(f"{at}.by", f"expected one of {', '.join(self._executors)}")
        return executor, executor.parse(execute, at)


class BoundTools:
    """`CallExecutor` of one run."""

    def __init__(self, tools: Mapping[str, tuple[ToolExecutor[Any], Any]], run_id: str) -> None:
        self._tools = tools
        self._run_id = run_id

    def is_external(self, tool: str) -> bool:
        """Return whether calls of a tool leave the daemon."""
        return self._tools[tool][0].is_external

    async def execute(self, call: ToolCall, key: str) -> ToolOutcome | None:
        """See `CallExecutor`."""
        executor, definition = self._tools[call.tool]
        return await executor.execute(definition, call, key, self._run_id)


def parse_definition(model: type[M], execute: JsonObject, at: str) -> M:
    """Validate an `execute` object by a model. Raises `InvalidRequest` with the path of the field."""
    try:
        return model.model_validate(dict(execute))
    except ValidationError as exc:
        fault = to_invalid_request(exc.errors(), dict(execute))
        raise InvalidRequest(f"{at}.{fault.at}", fault.why) from exc


def spec_with_parameters(tool: ToolDeclaration, at: str) -> ToolSpec:
    """Return a tool whose executor cannot provide its parameters. Raises `InvalidRequest` if it has none."""
    if tool.parameters is None:
        why = "required: a JSON Schema of type object; {} allows any. Only tools of MCP servers may omit it"
        raise InvalidRequest(f"{at}.parameters", why)
    return ToolSpec(tool.name, tool.parameters, tool.description or "")
