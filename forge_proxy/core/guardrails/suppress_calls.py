"""`tool_choice: none` on servers that let the model call tools nevertheless. Responses without calls pass through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge_proxy.core.guardrails.turn import Outcome
from forge_proxy.core.guardrails.verdict import Intervention
from forge_proxy.core.stream import Chunk, Delta, Reply, ReplyBuilder


class CallSuppressor:
    """Removes the calls from the chunks of a response. Chunks before the first call are not changed."""

    def __init__(self) -> None:
        self._calls: dict[int, ReplyBuilder] = {}
        self._spoke: set[int] = set()

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """The dropped calls."""
        names = [call.tool for builder in self._calls.values() for call in builder.reply().calls]
        return tuple(Intervention(Outcome.REPAIRED, name, "call: dropped, tool_choice is none") for name in names)

    def restore_calls(self, replies: Sequence[Reply]) -> tuple[Reply, ...]:
        """Return what the model wrote, given the replies that were sent."""
        written = {choice: builder.reply().calls for choice, builder in self._calls.items()}
        return tuple(replace(reply, calls=written.get(reply.choice, reply.calls)) for reply in replies)

    def take(self, chunk: Chunk) -> Chunk:
        """Return the chunk to send."""
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
        # An empty response would hide what the model wrote, so the calls are sent as text.
        calls = self._calls[delta.choice].reply().calls
        return replace(delta, text="\n".join(f"{call.tool}{call.arguments}" for call in calls))
