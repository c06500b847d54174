"""An answer on its way: the chunks a backend yields, and the builders that put them together.

Every backend yields `Chunk`s, a non-streaming one yields its whole answer as one. `ReplyBuilder` is the only maker of a
`Reply`, `CompletionBuilder` of a `Completion`: what a client gets whole is what it would have got streamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from io import StringIO

from forge_proxy.core.fast_dataclass import record
from forge_proxy.core.fields import FieldsBuilder
from forge_proxy.core.jsontypes import Json, JsonObject, no_fields
from forge_proxy.core.messages import ToolCall


@record
class CallDelta:
    """What one chunk adds to the call at `index`."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@record
class Delta:
    """What one chunk adds to one choice. None means that the chunk does not speak of it."""

    choice: int = 0
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[CallDelta, ...] = ()
    finish: str | None = None
    extra: JsonObject = field(default_factory=no_fields)
    """Other fields of the delta (role, refusal, …), as the backend sent them."""
    beside: JsonObject = field(default_factory=no_fields)
    """Other fields of the choice (logprobs, …), as the backend sent them."""


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """How many tokens of the prompt have been read, those in the cache included."""

    processed: int
    total: int


@record
class Chunk:
    """One event of an answer. `head` holds its other top-level fields: id, created, model, timings, ….

    `usage` is as the backend counts: `prompt_tokens`, `completion_tokens`, `total_tokens` and details.
    """

    deltas: tuple[Delta, ...] = ()
    usage: JsonObject | None = None
    head: JsonObject = field(default_factory=no_fields)
    progress: PromptProgress | None = None
    """How far the prompt has been read: such a chunk says nothing else, and the answer has not begun."""
    pending_bytes: int = 0
    """Bytes that are buffered of an event or body whose end has not come: such a chunk says nothing else."""
    anew: bool = False
    """Whether the answer begins anew here: nothing holds of what came before. No model server takes its words back, but
    a client of one's own may."""
    as_sent: bytes | None = field(default=None, compare=False, repr=False)
    """The JSON text this was read from, for a caller of the same dialect who is to get it unchanged."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer of the model, as far as it goes."""

    choice: int = 0
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    extra: JsonObject = field(default_factory=no_fields)
    beside: JsonObject = field(default_factory=no_fields)


@dataclass(frozen=True, slots=True)
class Completion:
    """The replies of one request with what surrounds them."""

    replies: tuple[Reply, ...]
    usage: JsonObject | None = None
    head: JsonObject = field(default_factory=no_fields)


class ReplyBuilder:
    """Puts the deltas of one choice together.

    Text is kept in buffers: a list of its pieces would take 60 bytes for each, and a piece is often one character.
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
        self._reply: Reply | None = None
        """What `reply` gave, until more comes: with log probabilities it takes long to put together."""

    def add(self, delta: Delta) -> None:
        """Take in one more delta of this choice."""
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
        if delta.beside:
            self._beside.add(delta.beside)

    def reply(self) -> Reply:
        """What there is so far."""
        if self._reply is None:
            self._reply = self._put_together()
        return self._reply

    def _put_together(self) -> Reply:
        return Reply(
            choice=self._choice,
            text=self._text.getvalue() if self._has_text else None,
            reasoning=self._reasoning.getvalue() if self._has_reasoning else None,
            calls=tuple(self._calls[index].call() for index in sorted(self._calls)),
            finish=self._finish,
            extra=self._extra.fields(),
            beside=self._beside.fields(),
        )


class CompletionBuilder:
    """Puts the chunks of a whole answer together."""

    def __init__(self) -> None:
        self._replies: dict[int, ReplyBuilder] = {}
        self._head: dict[str, Json] = {}
        self._usage: JsonObject | None = None

    def add(self, chunk: Chunk) -> None:
        """Take in one more chunk."""
        for delta in chunk.deltas:
            reply = self._replies.get(delta.choice)
            if reply is None:
                reply = self._replies[delta.choice] = ReplyBuilder(delta.choice)
            reply.add(delta)
        if chunk.usage is not None:
            self._usage = chunk.usage
        # The first id, time and model are those of the answer; what comes only later (timings) is taken as it comes.
        for name, value in chunk.head.items():
            self._head.setdefault(name, value)

    def completion(self) -> Completion:
        """What there is so far."""
        replies = tuple(self._replies[index].reply() for index in sorted(self._replies))
        return Completion(replies, self._usage, self._head)


class _CallBuilder:
    """Puts the deltas of one call together, also as servers send them that repeat or split id and name."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._more_name: list[str] = []
        """Pieces of the name that are not in `_name` yet: a name may come letter by letter, and may be long."""
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


def deltas_of(reply: Reply) -> Delta:
    """A whole reply as one delta: what `ReplyBuilder` makes of it is the reply again."""
    return Delta(
        choice=reply.choice,
        text=reply.text,
        reasoning=reply.reasoning,
        calls=tuple(CallDelta(i, call.id, call.tool, call.arguments) for i, call in enumerate(reply.calls)),
        finish=reply.finish,
        extra=reply.extra,
        beside=reply.beside,
    )


def chunks_of(completion: Completion) -> Iterable[Chunk]:
    """A whole completion as the one chunk it could have been streamed as."""
    yield Chunk(tuple(deltas_of(reply) for reply in completion.replies), completion.usage, completion.head)


THOUGHTS = "thinking_blocks"
"""The field of a message, among the `extra` ones, that carries thoughts with the signatures that let them be sent back:
a list of objects, each with an `index`, as every list in a delta has to be for openai's SDKs.
"""
