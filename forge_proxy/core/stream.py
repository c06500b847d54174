"""The chunks that a backend yields, and the builders that assemble them into a response.

Every backend yields `Chunk`s; a non-streaming one yields its whole response as one. Only `ReplyBuilder` builds a
`Reply` and only `CompletionBuilder` a `Completion`, so streamed and non-streamed responses have the same content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO

from forge_proxy.core.fast_dataclass import fast_dataclass
from forge_proxy.core.fields import FieldsBuilder
from forge_proxy.core.jsontypes import Json, JsonObject, no_fields
from forge_proxy.core.logprobs import LogProbs, LogProbsBuilder
from forge_proxy.core.messages import ToolCall


@fast_dataclass
class CallDelta:
    """The part of the call at `index` that one chunk adds."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@fast_dataclass
class Delta:
    """The part of one choice that one chunk adds. None means that the chunk does not contain the field."""

    choice: int = 0
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[CallDelta, ...] = ()
    finish: str | None = None
    extra: JsonObject = field(default_factory=no_fields)
    """Other fields of the delta (role, refusal, …), as the backend sent them."""
    choice_fields: JsonObject = field(default_factory=no_fields)
    """Other fields of the choice (stop_reason, token_ids, …), as the backend sent them."""
    logprobs: LogProbs | None = None


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """The number of prompt tokens processed so far, cached ones included."""

    processed: int
    total: int


@fast_dataclass
class Chunk:
    """One event of a response. `head` holds its other top-level fields: id, created, model, timings, ….

    `usage` is the backend's own count: `prompt_tokens`, `completion_tokens`, `total_tokens` and details.
    """

    deltas: tuple[Delta, ...] = ()
    usage: JsonObject | None = None
    head: JsonObject = field(default_factory=no_fields)
    progress: PromptProgress | None = None
    """Prompt processing progress. Such a chunk contains nothing else, and the response has not begun."""
    pending_bytes: int = 0
    """Buffered bytes of an incomplete event or body. Such a chunk contains nothing else."""
    restarts: bool = False
    """Whether the response restarts here and earlier chunks are void. No model server does this; a custom client
    of the SDK may do it."""
    as_sent: bytes | None = field(default=None, compare=False, repr=False)
    """The JSON text that this chunk was parsed from, forwarded unchanged to a client of the same dialect."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One assembled choice of a response, possibly incomplete."""

    choice: int = 0
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    extra: JsonObject = field(default_factory=no_fields)
    choice_fields: JsonObject = field(default_factory=no_fields)
    logprobs: LogProbs | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The replies to one request with their token counts and top-level fields."""

    replies: tuple[Reply, ...]
    usage: JsonObject | None = None
    head: JsonObject = field(default_factory=no_fields)


class ReplyBuilder:
    """Assembles the deltas of one choice.

    Text is kept in buffers: a list would cost 60 bytes per piece, and a piece is often a single character.
    """

    def __init__(self, choice: int = 0) -> None:
        self._choice = choice
        self._text = StringIO()
        self._reasoning = StringIO()
        self._calls: dict[int, _CallBuilder] = {}
        self._has_text = False
        self._has_reasoning = False
        self._finish: str | None = None
        self._extra = FieldsBuilder()
        self._beside = FieldsBuilder()
        self._logprobs = LogProbsBuilder()
        self._reply: Reply | None = None
        """Cached result of `reply`, valid until the next delta."""

    def add(self, delta: Delta) -> None:
        """Add one delta of this choice."""
        self._reply = None
        if delta.text is not None:
            self._has_text = True
            self._text.write(delta.text)
        if delta.reasoning is not None:
            self._has_reasoning = True
            self._reasoning.write(delta.reasoning)
        for piece in delta.calls:
            call = self._calls.get(piece.index)
            if call is None:
                call = self._calls[piece.index] = _CallBuilder()
            call.add(piece)
        if delta.finish is not None:
            self._finish = delta.finish
        if delta.extra:
            self._extra.add(delta.extra)
        if delta.choice_fields:
            self._beside.add(delta.choice_fields)
        if delta.logprobs is not None:
            self._logprobs.add(delta.logprobs)

    def reply(self) -> Reply:
        """Return the reply assembled so far."""
        if self._reply is None:
            self._reply = self._assemble()
        return self._reply

    def _assemble(self) -> Reply:
        return Reply(
            choice=self._choice,
            text=self._text.getvalue() if self._has_text else None,
            reasoning=self._reasoning.getvalue() if self._has_reasoning else None,
            calls=tuple(self._calls[index].call() for index in sorted(self._calls)),
            finish=self._finish,
            extra=self._extra.fields(),
            choice_fields=self._beside.fields(),
            logprobs=self._logprobs.logprobs(),
        )


class CompletionBuilder:
    """Assembles the chunks of a whole response."""

    def __init__(self) -> None:
        self._replies: dict[int, ReplyBuilder] = {}
        self._head: dict[str, Json] = {}
        self._usage: JsonObject | None = None

    def add(self, chunk: Chunk) -> None:
        """Add one chunk."""
        for delta in chunk.deltas:
            reply = self._replies.get(delta.choice)
            if reply is None:
                reply = self._replies[delta.choice] = ReplyBuilder(delta.choice)
            reply.add(delta)
        if chunk.usage is not None:
            self._usage = chunk.usage
        # The first id, time and model identify the response; fields that appear only later (timings) are added.
        for name, value in chunk.head.items():
            self._head.setdefault(name, value)

    def completion(self) -> Completion:
        """Return the completion assembled so far."""
        replies = tuple(self._replies[index].reply() for index in sorted(self._replies))
        return Completion(replies, self._usage, self._head)


class _CallBuilder:
    """Assembles the deltas of one call. Some servers repeat the id and the name or split the name."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._more_name: list[str] = []
        """Pieces of the name not yet joined into `_name`: a name may arrive letter by letter and may be long."""
        self._name_length = 0
        self._arguments = StringIO()

    def add(self, piece: CallDelta) -> None:
        self._id = self._id or piece.id
        if piece.name and (len(piece.name) != self._name_length or piece.name != self._joined_name()):
            self._more_name.append(piece.name)
            self._name_length += len(piece.name)
        self._arguments.write(piece.arguments)

    def call(self) -> ToolCall:
        return ToolCall(self._joined_name(), self._arguments.getvalue(), self._id)

    def _joined_name(self) -> str:
        if self._more_name:
            self._name = "".join((self._name, *self._more_name))
            self._more_name = []
        return self._name


SIGNED_REASONING = "thinking_blocks"
"""The field in `extra` of a message that carries signed reasoning, so that clients can send it back: a list
of objects, each with an `index`, which openai's SDKs require of every list in a delta.
"""
