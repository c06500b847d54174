"""`tool_choice: none` on servers that let the model call all the same. What holds no call passes through."""

from __future__ import annotations

from dataclasses import replace

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.stream import Chunk, Delta, ReplyBuilder


class CallsForbidden:
    """Takes the chunks of an answer and gives them out without calls: untouched up to the first one that holds any."""

    def __init__(self) -> None:
        self._calls: dict[int, ReplyBuilder] = {}
        self._spoke: set[int] = set()

    @property
    def marks(self) -> tuple[Intervention, ...]:
        """What was dropped."""
        names = [call.tool for builder in self._calls.values() for call in builder.reply().calls]
        return tuple(Intervention(Outcome.REPAIRED, name, "call: dropped, tool_choice is none") for name in names)

    def take(self, chunk: Chunk) -> Chunk:
        """The chunk as it may go out."""
        for delta in chunk.deltas:
            if delta.text and not delta.text.isspace():
                self._spoke.add(delta.choice)
            if delta.calls:
                self._calls.setdefault(delta.choice, ReplyBuilder()).add(Delta(calls=delta.calls))
        if not self._calls:
            return chunk
        return replace(chunk, deltas=tuple(map(self._without_calls, chunk.deltas)), as_sent=None)

    def _without_calls(self, delta: Delta) -> Delta:
        delta = replace(delta, calls=())
        if delta.choice not in self._calls or delta.finish is None:
            return delta
        if delta.finish == "tool_calls":
            delta = replace(delta, finish="stop")
        if delta.choice in self._spoke:
            return delta
        # An empty answer would be a lie: what the model wrote is told as the words it is.
        calls = self._calls[delta.choice].reply().calls
        return replace(delta, text="\n".join(f"{call.tool}{call.arguments}" for call in calls))
