"""The chat request as the engine sees it, the tools it offers and the call that a backend receives.

`wire` parses it from the client's bytes; everything below `api` reads it. The client's JSON is kept next to the parsed
fields, because fields that forge-proxy does not interpret are forwarded unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from forge_proxy.core.dialect import AS_SENT, Dialect
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.jsontypes import Json, JsonObject, is_object, no_fields
from forge_proxy.core.messages import Message

Schema: TypeAlias = JsonObject | bool
"""A JSON Schema as the client sent it: an object, or `True` to accept anything."""


@fast_dataclass
class ToolGrammar:
    """The grammar of a tool whose only argument is a text, such as Codex's `apply_patch`."""

    syntax: Literal["lark", "regex"]
    definition: str
    argument: str = "input"
    """The argument that holds the text."""


@fast_dataclass
class ToolSpec:
    """A function tool offered to the model."""

    name: str
    parameters: Schema = True
    description: str = ""
    grammar: ToolGrammar | None = None
    """The grammar of its text, if the client's API has tools with a grammar."""

    @classmethod
    def from_json_schema(cls, name: str, description: str, schema: Mapping[str, Any]) -> ToolSpec:
        """Build a tool from a JSON Schema of type object. Raises `InvalidRequest` if the schema is anything else."""
        if not is_object(schema):
            raise InvalidRequest(f"{name}.parameters", f"expected a JSON Schema as a dict, got {type(schema).__name__}")
        if schema.get("type", "object") != "object":
            raise InvalidRequest(f"{name}.parameters.type", "expected 'object': arguments are always an object")
        return cls(name, schema, description)


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether a call is optional, required or forbidden. `names` restricts it to some tools; empty means all."""

    mode: Literal["auto", "required", "none"] = "auto"
    names: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Whether a call of the tool called `name` satisfies this choice."""
        return not self.names or name in self.names

    def __str__(self) -> str:
        return f"a call of {' or '.join(self.names)}" if self.names else "a tool call"


@fast_dataclass
class ChatRequest:
    """One parsed chat completion request."""

    body: JsonObject
    """The client's JSON, never modified."""
    messages: tuple[JsonObject, ...] = ()
    """The conversation as the client sent it."""
    model: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel: bool = True
    """`parallel_tool_calls`: whether one response may contain several calls."""
    stream: bool = False
    include_usage: bool = False
    choices: int = 1
    """`n`: the number of requested choices."""
    limit: int | None = None
    """The client's limit on completion tokens; the smaller one if two fields set it."""
    is_large: bool = False
    """Whether the body is large enough to be serialized in slices."""
    is_converted: bool = False
    """Whether `body` was converted from another client API: the response is then encoded again, never forwarded."""
    is_assembled: bool = False
    """Whether the client's API repeats a streamed response as a whole at its end. Its size is then limited."""
    is_retried_here: bool = False
    """Whether the daemon retries the request if the model server fails, because the clients of its API never do."""
    dropped: tuple[str, ...] = ()
    """What the client's API requests and no model server can do, such as `tools[2]: web_search is not supported`.

    Reported as interventions; never contains a value from the prompt.
    """
    anthropic: JsonObject = field(default_factory=no_fields)
    """Fields of a Messages request for Anthropic's own API, besides the body: no other server would understand them.

    `system` has the blocks that precede the system prompt.
    """


Constraint: TypeAlias = Literal["grammar", "schema", "tool_choice", "none"]
"""How a model server is limited to calls: by the grammar of a tool's text, by the JSON Schema of a call, by
`tool_choice: required`, or not at all.
"""


@fast_dataclass
class ResolvedModel:
    """The model of a request. The engine resolves it once, when the request has its slot."""

    requested: str | None
    """The name in the client's request."""
    replacement: str | None = None
    """The name to send to the backend instead; None to send the requested one."""
    sampling: JsonObject = field(default_factory=no_fields)
    """Sampling parameters for those that the client does not set, by llama.cpp's names."""

    @property
    def served(self) -> str | None:
        """The name that the backend receives, under which per-model state is stored. None if there is no name."""
        return self.replacement or self.requested

    @property
    def response_name(self) -> str | None:
        """The name to write into responses: the client's, if the backend received another one. None to keep theirs."""
        return None if self.replacement is None else self.requested


@fast_dataclass
class ModelCall:
    """One call to a backend: the client's request plus what the guardrails add for this attempt."""

    request: ChatRequest
    stream: bool
    respond: ToolSpec | None = None
    """The synthetic respond tool, offered last so that the prompt prefix stays the same from turn to turn."""
    added: tuple[Message, ...] = ()
    """Failed responses and corrections, appended to the client's messages."""
    required_tools: tuple[ToolSpec, ...] = ()
    """Tools to which constrained decoding limits the response; empty to leave the model free."""
    grammar_tool: ToolSpec | None = None
    """The one of `required_tools` whose grammar limits the response instead, if the model server can."""
    constraint: Constraint = "schema"
    """How the model server is limited to `required_tools`. By a grammar or the schema, the call is the text of the
    response.
    """
    resolved: ResolvedModel | None = None
    """The model of the request; None if the name in the request was not resolved."""
    usage: bool = False
    """Whether to request token counts, even for a stream whose client did not request them."""
    dialect: Dialect = AS_SENT
    """The format that the backend accepts."""
    room: int | None = None
    """Completion tokens that fit into the window if the client requested more; 0 leaves the limit to the backend."""
    verbatim: bool = False
    """Whether the response is only forwarded. Chunks after the first then need no field other than `as_sent`."""
    traceparent: str = ""
    """The header of that name for the model server; empty if traces are not exported."""
    buffered: bool = True
    """Whether the chunks are assembled rather than only forwarded; the size of the response is then limited."""

    @property
    def model(self) -> ResolvedModel:
        """The model to which the call is sent."""
        return self.resolved or ResolvedModel(self.request.model)

    @property
    def prompt_parts(self) -> tuple[Json, Json, Json]:
        """The parts of the prompt: messages, tools and added messages."""
        added: list[Json] = [message.content for message in self.added]
        added += [call.arguments for message in self.added for call in message.tool_calls]
        return self.request.body.get("messages"), self.request.body.get("tools"), added


WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_context")
"""Fields of a model's description in which servers report its context window, and clients read it."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model that a backend serves. `window` is in tokens; `details` is the backend's own description."""

    id: str
    window: int | None = None
    details: JsonObject = field(default_factory=no_fields)


def find_window(cards: Sequence[ModelCard], model: str | None) -> int | None:
    """Return the context window of `model` in tokens; without a name, that of the only model. None if unknown."""
    if model is None:
        return cards[0].window if len(cards) == 1 else None
    return next((card.window for card in cards if card.id == model), None)
