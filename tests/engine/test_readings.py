"""Which replies are read thoroughly, and what stands where that brings nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from forge_proxy.core.chat import ChatRequest, ToolSpec
from forge_proxy.core.guardrails import GuardPolicy, Turn, open_turn
from forge_proxy.core.guardrails.reading import Reading
from forge_proxy.core.messages import ToolCall
from forge_proxy.core.stream import Reply
from forge_proxy.engine import readings
from forge_proxy.engine.readings import readings_of

FOUND = Reading("", (ToolCall("get_weather"),))


@dataclass
class Knows:
    """A `ThoroughReader` that finds this."""

    found: Reading | None
    asked: list[Reply] = field(default_factory=list[Reply])

    async def read(self, turn: Turn, reply: Reply) -> Reading | None:
        self.asked.append(reply)
        return self.found


@pytest.fixture(autouse=True)
def _light_readings_leave_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def light(turn: Turn, reply: Reply) -> Reading:
        return Reading(reply.text or "", (), unread="broken" in (reply.text or ""))

    monkeypatch.setattr(readings, "read", light)


async def test_what_is_plain_is_read_once() -> None:
    thorough = Knows(FOUND)

    found = await readings_of(turn(), [Reply(text="plain")], thorough)

    assert found == [Reading("plain", ())]
    assert thorough.asked == []


async def test_what_is_broken_is_read_thoroughly_and_each_choice_by_itself() -> None:
    thorough = Knows(FOUND)
    replies = [Reply(text="plain"), Reply(1, text="broken"), Reply(2, text="broken, too")]

    found = await readings_of(turn(), replies, thorough)

    assert found == [Reading("plain", ()), FOUND, FOUND]
    assert thorough.asked == replies[1:]


@pytest.mark.parametrize(
    "long",
    [Reply(text="x" * 250_000), Reply(reasoning="x" * 250_000), Reply(calls=(ToolCall("get_weather", "x" * 250_000),))],
    ids=["text", "reasoning", "arguments"],
)
async def test_a_very_long_reply_is_not_read_here_at_all(long: Reply) -> None:
    thorough = Knows(FOUND)

    assert await readings_of(turn(), [long], thorough) == [FOUND]
    assert thorough.asked == [long]
    assert await readings_of(turn(), [long], Knows(None)) == [Reading(long.text or "", ())]


@pytest.mark.parametrize("thorough", [None, Knows(None)], ids=["nobody reads it", "nothing is found in time"])
async def test_the_light_reading_stands_where_there_is_no_other(thorough: Knows | None) -> None:
    found = await readings_of(turn(), [Reply(text="broken")], thorough)

    assert found == [Reading("broken", (), unread=True)]


async def test_a_text_with_many_openers_is_not_read_here_and_stays_text_where_nobody_can_read_it() -> None:
    thorough = Knows(FOUND)
    reply = Reply(text="<|1 " * 20_000, calls=(ToolCall("get_weather", "{}"),))

    assert await readings_of(turn(), [reply], thorough) == [FOUND]
    assert await readings_of(turn(), [reply], Knows(None)) == [
        Reading(reply.text or "", reply.calls, written=reply.text or "")
    ]


async def test_without_processes_a_text_with_many_openers_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def light(turn: Turn, reply: Reply) -> Reading:
        threads.append(threading.current_thread())
        return FOUND

    monkeypatch.setattr(readings, "read", light)

    assert await readings_of(turn(), [Reply(text="<|1 " * 20_000)], None) == [FOUND]
    assert threading.main_thread() not in threads


def turn() -> Turn:
    opened = open_turn(
        ChatRequest({}, tools=(ToolSpec("get_weather"),)), GuardPolicy(), request_id="r", nudge_text=True
    )
    assert opened
    return opened
