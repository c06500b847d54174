"""The model of a scripted server: the right response at each point of a conversation, and the place of the fault."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from tests.fakes.says import Said
from tests.harness.fault import Ask, Fault, right
from tests.harness.mistakes import REPEATED_ID
from tests.harness.response import JsonDict, Response, send
from tests.harness.tasks import Call, Move, Task

MODEL = "scripted"


@dataclass(frozen=True)
class Exchange:
    """The body of a request, the model's response to it, and the bytes that were written."""

    asked: JsonDict
    said: Said
    response: Response


class ScriptedModel:
    """Does the `task` of a client, with `fault` in it; `made` counts the occasions for the fault."""

    def __init__(self, task: Task, fault: Fault) -> None:
        self.exchanges: list[Exchange] = []
        self.made = 0
        self._task = task
        self._fault = fault
        self._times: dict[str, int] = {}
        self._calls: dict[str, Call] = {}
        self._one_at_a_time = threading.Lock()

    def answer(self, body: JsonDict) -> Exchange:
        """Return the next response."""
        with self._one_at_a_time:
            said, response = self._next(body, ids=f"call_{len(self.exchanges)}_")
            self.exchanges.append(Exchange(body, said, response))
            return self.exchanges[-1]

    def _next(self, body: JsonDict, ids: str) -> tuple[Said, Response]:
        stream = bool(body.get("stream"))
        move = self._task.next_move(body)
        if move is None:
            return (title := Said(text="A title")), send(title, stream)
        ask = self._ask(self._with_respond(move, body), body)
        changes = {} if self._fault.name == REPEATED_ID else {"ids": ids}
        wrong = self._fault.say(ask)
        if wrong is not None:
            wrong = replace(wrong, **changes)
            response = self._fault.send(wrong, stream)
            if response is not None:
                self.made += 1
                return wrong, response
        said = replace(right(ask.move), **changes)
        return said, send(said, stream)

    def _with_respond(self, move: Move, body: JsonDict) -> Move:
        """Return the last response as a call of the `respond` tool if the daemon offers it."""
        offered = {tool["function"]["name"] for tool in body.get("tools") or []}
        if isinstance(move, str) and "respond" in offered and not self._fault.is_plain:
            return Call("respond", {"message": move})
        return move

    def _ask(self, move: Move, body: JsonDict) -> Ask:
        times = self._times.get(repr(move), 0)
        self._times[repr(move)] = times + 1
        has_results = bool(self._task.results(body))
        answered = [call for key, call in self._calls.items() if has_results and key != repr(move)]
        if isinstance(move, Call):
            self._calls[repr(move)] = move
        tools = [tool["function"] for tool in body.get("tools") or []]
        return Ask(move, times, self.made, answered, tools)
