"""Reasoning blocks that a model's chat template opens: learned from its responses, and then not sent as text."""

from __future__ import annotations

from collections.abc import Sequence

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.guardrails import GuardPolicy
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.fakes.says import Said
from tests.fakes.scripted import JsonDict, ScriptedHttp, StillClock

TOOL: JsonDict = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASK: JsonDict = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "tools": [TOOL], "stream": True}
LIVE = GuardPolicy(text_responses="accept")
THINKS = Said(text="They greet me.\n</think>\n\nHello to you, and welcome.")
PLAIN = Said(text="Hello to you, and welcome.")


async def deltas(engine: Engine) -> list[tuple[str | None, str | None]]:
    """The reasoning and the text of each delta of one response."""
    events = engine.answer(decode_request(ASK), LIVE, request_id="r")
    chunks = [event async for event in events if isinstance(event, Chunk)]
    return [
        (delta.reasoning, delta.text) for chunk in chunks for delta in chunk.deltas if delta.reasoning or delta.text
    ]


async def answers(script: Sequence[Said]) -> list[tuple[str, str, int]]:
    """Of each answer the reasoning, the text, and how many deltas with text there were."""
    engine = Engine(
        EngineConfig(OpenAICompatible("http://scripted", ScriptedHttp(script)), StillClock(), lambda _: None)
    )
    found: list[tuple[str, str, int]] = []
    for _ in script:
        said = await deltas(engine)
        texts = [text for _, text in said if text]
        found.append(("".join(thought or "" for thought, _ in said).strip(), "".join(texts).strip(), len(texts)))
    return found


async def test_once_learned_the_block_is_sent_as_reasoning_and_the_text_after_it_is_streamed() -> None:
    first, second, third = await answers([THINKS] * 3)

    assert first[1].startswith("They greet me.")  # not known yet
    assert second[:2] == third[:2] == ("They greet me.", "Hello to you, and welcome.")
    assert second[2] > 1


async def test_a_response_without_the_block_is_text_and_the_next_one_is_streamed_again() -> None:
    *_, held, live = await answers([THINKS, PLAIN, PLAIN])

    assert held == ("", "Hello to you, and welcome.", 1)
    assert live[:2] == ("", "Hello to you, and welcome.")
    assert live[2] > 1


async def test_a_response_without_text_changes_nothing() -> None:
    *_, last = await answers([THINKS, Said(calls=(("get_weather", "{}"),)), THINKS])

    assert last[0] == "They greet me."
