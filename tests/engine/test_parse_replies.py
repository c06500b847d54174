"""Which replies are parsed thoroughly, and which result is used if that finds nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.engine.pacing import LoopTurns, Weight
from forge_proxy.engine.parse_replies import parse_replies

FOUND = Extraction("", (ToolCall("get_weather"),))


@dataclass
class Knows:
    """A `ThoroughReader` with a fixed result."""

    found: Extraction | None
    asked: list[Reply] = field(default_factory=list[Reply])
    lightly: list[bool] = field(default_factory=list[bool])

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        self.asked.append(reply)
        self.lightly.append(lightly)
        return self.found


@dataclass
class FailsThoroughly(Knows):
    """A `ThoroughReader` with a result for the light extraction, and none in time for the thorough one."""

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        await super().read(turn, reply, lightly=lightly)
        return self.found if lightly else None


class CountedTurns(LoopTurns):
    """Counts the turns that were waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0

    async def take(self, weight: Weight = Weight.FRESH) -> None:
        self.waits += 1
        await super().take(weight)


@pytest.fixture(autouse=True)
def _light_readings_leave_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def light(turn: Turn, reply: Reply) -> Extraction:
        return Extraction(reply.text or "", (), may_recover_more="broken" in (reply.text or ""))

    monkeypatch.setattr("forge_proxy.engine.parse_replies.extract", light)


async def test_a_plain_reply_is_parsed_once() -> None:
    thorough = Knows(FOUND)

    found = await parse_replies(turn(), [Reply(text="plain")], thorough, LoopTurns())

    assert found == [Extraction("plain", ())]
    assert thorough.asked == []


async def test_only_broken_choices_are_parsed_thoroughly() -> None:
    thorough = Knows(FOUND)
    replies = [Reply(text="plain"), Reply(1, text="broken"), Reply(2, text="broken, too")]

    found = await parse_replies(turn(), replies, thorough, LoopTurns())

    assert found == [Extraction("plain", ()), FOUND, FOUND]
    assert thorough.asked == replies[1:]


@pytest.mark.parametrize(
    "long",
    [Reply(text="x" * 250_000), Reply(reasoning="x" * 250_000), Reply(calls=(ToolCall("get_weather", "x" * 250_000),))],
    ids=["text", "reasoning", "arguments"],
)
async def test_a_very_long_reply_is_never_parsed_on_the_event_loop(long: Reply) -> None:
    thorough = Knows(FOUND)

    assert await parse_replies(turn(), [long], thorough, LoopTurns()) == [FOUND]
    assert thorough.asked == [long]
    text = long.text or ""
    assert await parse_replies(turn(), [long], Knows(None), LoopTurns()) == [
        Extraction(text, long.calls, text_with_calls=text)
    ]


@pytest.mark.parametrize("thorough", [None, Knows(None)], ids=["nobody reads it", "nothing is found in time"])
async def test_the_light_extraction_is_used_if_there_is_no_thorough_one(thorough: Knows | None) -> None:
    found = await parse_replies(turn(), [Reply(text="broken")], thorough, LoopTurns())

    assert found == [Extraction("broken", (), may_recover_more=True)]


async def test_a_text_with_many_openers_stays_text_if_no_process_is_available() -> None:
    thorough = Knows(FOUND)
    reply = Reply(text="<|1 " * 20_000, calls=(ToolCall("get_weather", "{}"),))

    assert await parse_replies(turn(), [reply], thorough, LoopTurns()) == [FOUND]
    assert await parse_replies(turn(), [reply], Knows(None), LoopTurns()) == [
        Extraction(reply.text or "", reply.calls, text_with_calls=reply.text or "")
    ]


async def test_a_long_text_is_parsed_lightly_first_and_that_result_is_used_if_the_thorough_parser_is_too_slow() -> None:
    broken = Extraction("", (), broken=True, may_recover_more=True)
    thorough = FailsThoroughly(broken)

    assert await parse_replies(turn(), [Reply(text="x" * 250_000)], thorough, LoopTurns()) == [broken]
    assert thorough.lightly == [True, False]


@pytest.mark.parametrize(
    ("text", "waits"),
    [("Hi.", 0), ("{" * 2_000, 1), ("\nAction: get_weather\n" * 1_000, 1), ("\nAction: get_weather\n" * 9_000, 0)],
    ids=["short", "brackets", "actions", "for a process"],
)
async def test_a_text_that_takes_milliseconds_waits_for_a_turn(text: str, waits: int) -> None:
    turns = CountedTurns()

    await parse_replies(turn(), [Reply(text=text)], Knows(FOUND), turns)

    assert turns.waits == waits


async def test_without_processes_a_text_with_many_openers_is_parsed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def light(turn: Turn, reply: Reply) -> Extraction:
        threads.append(threading.current_thread())
        return FOUND

    monkeypatch.setattr("forge_proxy.engine.parse_replies.extract", light)

    assert await parse_replies(turn(), [Reply(text="<|1 " * 20_000)], None, LoopTurns()) == [FOUND]
    assert threading.main_thread() not in threads


def turn() -> Turn:
    opened = open_turn(
        ChatRequest({}, tools=(ToolSpec("get_weather"),)), GuardPolicy(), request_id="r", nudge_text=True
    )
    assert opened
    return opened
