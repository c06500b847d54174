"""Agents with a model that ends in text, but makes a call if the text is retried.

The call that follows the retry starts the next round: without a rule against it, openai-agents reaches its turn limit
and pi never ends. Each conversation must be the one that the client has without guardrails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from forge_proxy.core.guardrails import GuardPolicy, Switches
from tests.api.test_mistakes import ASK
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, chat
from tests.properties import sample

MAX_TURNS = 10
"""The turn limit of openai-agents."""
RETRIED = GuardPolicy(text_responses="nudge")
UNGUARDED = GuardPolicy(enabled=Switches(respond=False, rescue=False, validate=False, retry=False, loops=False))


def call(arguments: str, *more: str) -> Said:
    return Said(calls=tuple(("get_weather", one) for one in (arguments, *more)))


def compact(arguments: str) -> str:
    return json.dumps(json.loads(arguments), separators=(",", ":"))


@dataclass(frozen=True)
class Client:
    """What an agent sends from turn to turn, as recorded from its current version."""

    stream: bool
    content: str | None = None
    """The content of an assistant message with calls."""
    rewrite: Callable[[str], str] = str
    """How it sends back the arguments of a call."""
    fields: JsonDict = field(default_factory=dict[str, Any])


CLIENTS = {
    "openai-agents": Client(stream=False),
    "openai-agents, streamed": Client(stream=True),
    "pydantic-ai": Client(stream=False, rewrite=compact, fields={"tool_choice": "auto"}),
    "pi": Client(stream=True, rewrite=compact, fields={"store": False, "max_completion_tokens": 8192}),
    "opencode": Client(stream=True, content="", rewrite=compact, fields={"tool_choice": "auto", "max_tokens": 8192}),
}
PARIS, OSLO, ROME = (json.dumps({"city": city, "days": 3}) for city in ("Paris", "Oslo", "Rome"))
TEXT = Said(text="It is sunny in all of them.")
PLAN = (call(PARIS), call(OSLO), call(ROME), TEXT)
"""The model's response in each round."""
INVALID = call('{"city": "Rome", "days": "many"}')
AS_TEXT = Said(text=f'<tool_call>\n{{"name": "get_weather", "arguments": {ROME}}}\n</tool_call>')

WHEN_RETRIED: dict[str, Mapping[str, Said]] = {
    "the last call": {"That was not": call(ROME)},
    "the last call, written differently": {"That was not": call('{"days":3.0,  "city":"Rome"}')},
    "the last call, written as text": {"That was not": AS_TEXT},
    "an earlier call": {"That was not": call(PARIS)},
    "all calls at once": {"That was not": call(PARIS, OSLO, ROME)},
    "text, and the last call": {"That was not": Said(text="Again.", calls=call(ROME).calls)},
    "nothing, then the last call": {"That was not": Said(text=""), "Your reply was empty": call(ROME)},
    "an invalid call, then the last one": {"That was not": INVALID, "[ToolArgValidationError]": call(ROME)},
    "an invalid call each time": {"That was not": INVALID, "[ToolArgValidationError]": INVALID},
    "an unknown tool each time": {
        "That was not": Said(calls=(("search", "{}"),)),
        "[UnknownTool]": Said(calls=(("search", "{}"),)),
    },
    "text": {"That was not": Said(text="I have nothing to call.")},
}
"""Its response if its text is retried, by the beginning of the daemon's correction."""


def model(when_retried: Mapping[str, Said]) -> Callable[[JsonDict], Said]:
    """A model that follows its plan, and obliges if it is corrected."""

    def answer(asked: JsonDict) -> Said:
        messages = asked["messages"]
        for beginning, said in when_retried.items():
            if str(messages[-1]["content"]).startswith(beginning):
                return said
        rounds = sum("tool_calls" in message for message in messages)
        return PLAN[min(rounds, len(PLAN) - 1)]

    return answer


async def converse(
    client: Client, answer: Callable[[JsonDict], Said], policy: GuardPolicy
) -> tuple[list[Any], int | None]:
    """Run the agent until a response has no calls. Returns the calls of each turn with the text of the last one, and
    the attempts of the last one.
    """
    messages: list[JsonDict] = [*ASK["messages"]]
    turns: list[Any] = []
    for number in range(MAX_TURNS):
        body = {**ASK, **client.fields, "messages": messages}
        reply = await chat(answer, body, stream=client.stream, policy=policy)
        if not reply.calls:
            return [*turns, reply.text], reply.attempts
        turns.append(reply.calls)
        messages += _round(client, number, reply.calls)
    return [*turns, "the turn limit"], None


def _round(client: Client, number: int, calls: Sequence[tuple[str, Any]]) -> list[JsonDict]:
    made = [
        {"id": f"c{number}{place}", "type": "function",
         "function": {"name": name, "arguments": client.rewrite(json.dumps(arguments))}}
        for place, (name, arguments) in enumerate(calls)
    ]  # fmt: skip
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "sunny"} for one in made]
    return [{"role": "assistant", "content": client.content, "tool_calls": made}, *results]


@pytest.mark.parametrize(("client", "obliges"), sample([*product(CLIENTS, WHEN_RETRIED)], 0.7))
async def test_a_conversation_ends_as_it_does_without_guardrails(client: str, obliges: str) -> None:
    answer = model(WHEN_RETRIED[obliges])

    guarded, attempts = await converse(CLIENTS[client], answer, RETRIED)
    unguarded, _ = await converse(CLIENTS[client], answer, UNGUARDED)

    assert guarded == unguarded
    assert (guarded[-1], len(guarded)) == (TEXT.text, len(PLAN))
    assert attempts is not None
    assert attempts > 1  # the text was retried
