"""The submission of a run: the workflow as JSON, the initial messages and the limits."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from forge_proxy.core.budget import MAX_TOKENS, MIN_TOKENS
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.definition import Prerequisite, ToolDef, Workflow
from forge_proxy.core.workflow.errors import InvalidWorkflow
from forge_proxy.core.workflow.run import RunState, begin_run
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.jobs.storage_limits import StorableModel, StoredObject
from forge_proxy.workflows.runs.errors import RunNotReadable
from forge_proxy.workflows.runs.message_json import MessageJson, parse_messages
from forge_proxy.workflows.runs.options import check_options


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name must not contain control characters")
    return name


Name: TypeAlias = Annotated[str, AfterValidator(_printable), Field(min_length=1, max_length=200)]


class ToolPrerequisite(BaseModel):
    """A tool that must have succeeded before."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(description="The tool's name.")
    match_arg: str | None = Field(
        default=None, description="The earlier call must have had the same value of this argument."
    )


class SubmittedTool(BaseModel):
    """A tool that the model may call."""

    model_config = ConfigDict(extra="forbid")

    description: str | None = Field(
        default=None, description="What the tool does, for the model. Default for an MCP server's tool: the server's."
    )
    parameters: StoredObject | None = Field(
        default=None,
        description="JSON Schema of the arguments object. Optional for a tool of an MCP server, which then provides"
        " it.",
    )
    prerequisites: list[str | ToolPrerequisite] = Field(
        default_factory=list[str | ToolPrerequisite],
        max_length=64,
        description="Tools that must have succeeded before.",
    )
    execute: StoredObject = Field(
        default_factory=lambda: {"by": "client"},
        description='The executor: {"by": "client"} (the run pauses until the client posts the output), '
        '{"by": "arguments"} (the arguments are the result), {"by": "http", "url": …} or {"by": "mcp", "server": …}.',
    )

    def definition(self, name: str) -> ToolDef:
        """Convert to the runner's tool definition. Raises `InvalidRequest`."""
        needed = [one if isinstance(one, str) else Prerequisite(one.tool, one.match_arg) for one in self.prerequisites]
        return ToolDef(ToolSpec.from_json_schema(name, self.description or "", self.parameters or {}), None, needed)


class SubmittedWorkflow(BaseModel):
    """The workflow: its tools, required steps and system prompt."""

    model_config = ConfigDict(extra="forbid")

    name: Name = Field(description="The workflow's name in lists.")
    description: str = Field(default="", description="A description for people; not sent to the model.")
    tools: dict[str, SubmittedTool] = Field(max_length=256, description="The tools, by name.")
    required_steps: list[str] = Field(
        default_factory=list[str], description="Tools that must have succeeded before a terminal tool may be called."
    )
    terminal_tool: str | list[str] = Field(
        description="The tool, or tools, that ends the run; its result is the run's result."
    )
    system_prompt_template: str = Field(description="The system prompt; prompt_vars fills its {placeholders}.")

    def definition(self) -> Workflow:
        """Convert to the runner's workflow. Raises `InvalidWorkflow` with the path of the field."""
        try:
            tools = {name: tool.definition(name) for name, tool in self.tools.items()}
        except InvalidRequest as error:  # of a tool's schema, under the tool's name
            raise InvalidWorkflow(f"workflow.tools.{error.at}", error.why) from error
        try:
            return Workflow(
                self.name, self.description, tools, self.required_steps, self.terminal_tool, self.system_prompt_template
            )
        except InvalidWorkflow as error:
            raise InvalidWorkflow(f"workflow.{error.at}", error.why) from error


class CompletedStep(BaseModel):
    """A call that has already succeeded."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(description="The tool's name.")
    arguments: StoredObject = Field(default_factory=dict, description="The arguments of the call.")


class ContextOptions(BaseModel):
    """How a run's context is kept within its budget."""

    model_config = ConfigDict(extra="forbid")

    strategy: Literal["none", "sliding", "tiered"] = Field(
        default="tiered",
        description="sliding drops old iterations; tiered compacts by the type of the messages.",
    )
    budget: int | None = Field(
        default=None, ge=MIN_TOKENS, le=MAX_TOKENS, description="Context budget in tokens. Default: the model's budget."
    )
    threshold: float = Field(
        default=0.75, gt=0, le=1, description="Share of the budget from which the context is compacted."
    )
    keep_recent: int = Field(
        default=2, ge=1, le=1000, description="Number of latest iterations that are kept unchanged."
    )


class Submission(StorableModel):
    """A run to execute."""

    model_config = ConfigDict(extra="forbid")

    workflow: SubmittedWorkflow = Field(description="The workflow to run.")
    user_message: str | None = Field(default=None, description="The user's message; required without initial_messages.")
    prompt_vars: dict[str, str] = Field(
        default_factory=dict, description="Values for the placeholders of the system prompt."
    )
    initial_messages: list[MessageJson] | None = Field(
        default=None, description="A conversation to continue, instead of the system prompt and user_message."
    )
    steps: list[CompletedStep] = Field(
        default_factory=list[CompletedStep],
        max_length=1000,
        description="Steps already completed: those of the run whose messages initial_messages are.",
    )
    model: Name | None = Field(default=None, description="The model. Default: the daemon's default model.")
    max_iterations: int = Field(
        default=10, ge=1, le=1000, description="Maximum number of responses of the model, valid or not."
    )
    max_retries_per_step: int = Field(
        default=3, ge=0, le=100, description="Maximum number of consecutive responses without a valid call."
    )
    max_tool_errors: int = Field(
        default=2, ge=0, le=100, description="Maximum number of consecutive batches in which a tool failed."
    )
    rescue_enabled: bool = Field(default=True, description="Whether the rescue parser recovers calls written as text.")
    context: ContextOptions | None = Field(
        default=None,
        description="How the context is kept within its budget. If omitted, a context over the budget is rejected.",
    )
    options: StoredObject = Field(
        default_factory=dict, description="Further request fields for the model server, such as temperature."
    )
    metadata: StoredObject = Field(
        default_factory=dict, description="Arbitrary data of the client, returned unchanged."
    )

    notify_url: str | None = Field(
        default=None,
        max_length=2000,
        description="A URL that is called when the run ends or waits for outputs. tools.callbacks.allow must list its"
        " origin.",
    )

    @property
    def executes(self) -> dict[str, dict[str, Json]]:
        """The executor of each tool, by the tool's name."""
        return {name: tool.execute for name, tool in self.workflow.tools.items()}

    def begin(self, workflow: Workflow) -> RunState:
        """Return the initial state of the run. Raises `InvalidRequest`."""
        check_options(self.options)
        if self.initial_messages is None:
            if self.user_message is None:
                raise InvalidRequest("user_message", "required without initial_messages")
            return begin_run(workflow, self.user_message, self.prompt_vars, steps=self._completed_steps())
        if self.user_message is not None:
            raise InvalidRequest("user_message", "not allowed with initial_messages: add it to them as a message")
        messages = parse_messages(self.initial_messages, "initial_messages")
        return begin_run(workflow, "", initial_messages=messages, steps=self._completed_steps())

    def _completed_steps(self) -> Steps:
        steps = Steps()
        for place, one in enumerate(self.steps):
            if one.tool not in self.workflow.tools:
                raise InvalidRequest(f"steps[{place}].tool", f"the workflow has no tool {one.tool!r}")
            steps = steps.record(one.tool, one.arguments)
        return steps


def read_submission(text: str) -> Submission:
    """Parse a stored submission. Raises `RunNotReadable`."""
    try:
        return Submission.model_validate_json(text)
    except ValidationError as error:
        raise RunNotReadable("this version of forge-proxy cannot read the stored submission of this run") from error
