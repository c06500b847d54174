"""A run as it is submitted: the workflow as JSON, what to begin with, and how far to go."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from forge_proxy.core.budget import LARGEST, SMALLEST
from forge_proxy.core.chat import ToolSpec
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import Json
from forge_proxy.core.workflow.definition import Prerequisite, ToolDef, Workflow
from forge_proxy.core.workflow.errors import InvalidWorkflow
from forge_proxy.core.workflow.run import RunState, begin
from forge_proxy.core.workflow.steps import Steps
from forge_proxy.workflows.runs.errors import NotReadable
from forge_proxy.workflows.runs.message_json import MessageJson, read_messages
from forge_proxy.workflows.runs.options import check_options
from forge_proxy.workflows.runs.storage_limits import StorableModel, StoredObject


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name has no control characters")
    return name


Name: TypeAlias = Annotated[str, AfterValidator(_printable), Field(min_length=1, max_length=200)]


class ToolPrerequisite(BaseModel):
    """A tool that has to have succeeded before."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(description="Its name.")
    match_arg: str | None = Field(default=None, description="With the same value of this argument.")


class SubmittedTool(BaseModel):
    """A tool that the model may call."""

    model_config = ConfigDict(extra="forbid")

    description: str | None = Field(
        default=None, description="What it does, for the model; of an MCP server's tool by default what that says."
    )
    parameters: StoredObject | None = Field(
        default=None,
        description="JSON Schema of its arguments, which are an object. Of an MCP server's tool it may be left out:"
        " the server says it then.",
    )
    prerequisites: list[str | ToolPrerequisite] = Field(
        default_factory=list[str | ToolPrerequisite],
        max_length=64,
        description="Tools that have to have succeeded before.",
    )
    execute: StoredObject = Field(
        default_factory=lambda: {"by": "caller"},
        description='What executes it: {"by": "caller"} (the run pauses until its output is posted), '
        '{"by": "arguments"} (nothing: they are its result), {"by": "http", "url": …} or {"by": "mcp", "server": …}.',
    )

    def definition(self, name: str) -> ToolDef:
        """The tool as the runner has it. Raises `InvalidRequest`."""
        needed = [one if isinstance(one, str) else Prerequisite(one.tool, one.match_arg) for one in self.prerequisites]
        return ToolDef(ToolSpec.from_json_schema(name, self.description or "", self.parameters or {}), None, needed)


class SubmittedWorkflow(BaseModel):
    """What is to be done, with which tools."""

    model_config = ConfigDict(extra="forbid")

    name: Name = Field(description="What it is called in lists.")
    description: str = Field(default="", description="For people.")
    tools: dict[str, SubmittedTool] = Field(max_length=256, description="The tools, by their names.")
    required_steps: list[str] = Field(
        default_factory=list[str], description="Tools that have to have succeeded before a terminal one may be called."
    )
    terminal_tool: str | list[str] = Field(
        description="The tool that ends the run, or several; its result is the run's."
    )
    system_prompt_template: str = Field(description="The system prompt; {placeholders} are filled by prompt_vars.")

    def definition(self) -> Workflow:
        """The workflow as the runner has it. Raises `InvalidWorkflow` with the path of the field."""
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
    """A call that has succeeded."""

    model_config = ConfigDict(extra="forbid")

    tool: str = Field(description="The tool's name.")
    arguments: StoredObject = Field(default_factory=dict, description="What it was called with.")


class ContextOptions(BaseModel):
    """How a run's history is kept within its budget."""

    model_config = ConfigDict(extra="forbid")

    strategy: Literal["none", "sliding", "tiered"] = Field(
        default="tiered",
        description="sliding drops old iterations; tiered goes by what messages are for.",
    )
    budget: int | None = Field(
        default=None, ge=SMALLEST, le=LARGEST, description="Tokens; by default the model's budget."
    )
    threshold: float = Field(default=0.75, gt=0, le=1, description="The share of it from which on it is shortened.")
    keep_recent: int = Field(default=2, ge=1, le=1000, description="How many of the latest iterations stay whole.")


class Submission(StorableModel):
    """A run that is to be done."""

    model_config = ConfigDict(extra="forbid")

    workflow: SubmittedWorkflow = Field(description="What is to be done.")
    user_message: str | None = Field(default=None, description="What it is about; needed without initial_messages.")
    prompt_vars: dict[str, str] = Field(
        default_factory=dict, description="Values for the placeholders of the system prompt."
    )
    initial_messages: list[MessageJson] | None = Field(
        default=None, description="A conversation to go on with, in place of system prompt and user_message."
    )
    steps: list[CompletedStep] = Field(
        default_factory=list[CompletedStep],
        max_length=1000,
        description="What has been done already: the steps of the run whose messages these are.",
    )
    model: Name | None = Field(default=None, description="Which model; the daemon's usual one where it is left out.")
    max_iterations: int = Field(default=10, ge=1, le=1000, description="How many answers of the model, of all kinds.")
    max_retries_per_step: int = Field(default=3, ge=0, le=100, description="Answers in a row without a valid call.")
    max_tool_errors: int = Field(default=2, ge=0, le=100, description="Batches in a row in which a tool failed.")
    rescue_enabled: bool = Field(default=True, description="Whether calls that are written as text are read.")
    context: ContextOptions | None = Field(
        default=None, description="How a history is kept within its budget. Left out: one that is too long is refused."
    )
    options: StoredObject = Field(
        default_factory=dict, description="More fields for the model server, such as temperature."
    )
    metadata: StoredObject = Field(default_factory=dict, description="The caller's own; it is handed back.")

    @property
    def executes(self) -> dict[str, dict[str, Json]]:
        """How each tool is executed, by its name."""
        return {name: tool.execute for name, tool in self.workflow.tools.items()}

    def begin(self, workflow: Workflow) -> RunState:
        """Where the run begins. Raises `InvalidRequest`."""
        check_options(self.options)
        if self.initial_messages is None:
            if self.user_message is None:
                raise InvalidRequest("user_message", "say what the run is about, or give initial_messages")
            return begin(workflow, self.user_message, self.prompt_vars, steps=self._done())
        if self.user_message is not None:
            raise InvalidRequest("user_message", "initial_messages take its place: add it to them")
        messages = read_messages(self.initial_messages, "initial_messages")
        return begin(workflow, "", initial_messages=messages, steps=self._done())

    def _done(self) -> Steps:
        steps = Steps()
        for place, one in enumerate(self.steps):
            if one.tool not in self.workflow.tools:
                raise InvalidRequest(f"steps[{place}].tool", f"the workflow has no tool {one.tool!r}")
            steps = steps.record(one.tool, one.arguments)
        return steps


def read_submission(text: str) -> Submission:
    """A stored one. Raises `NotReadable`."""
    try:
        return Submission.model_validate_json(text)
    except ValidationError as error:
        raise NotReadable("what was submitted as this run cannot be read by this version of forge-proxy") from error
