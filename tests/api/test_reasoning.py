"""The reasoning of several attempts is separated, streamed and whole."""

from __future__ import annotations

import pytest

from tests.api.test_mistakes import ASK, PARIS_TEXT, both
from tests.fakes.says import Said
from tests.fakes.scripted import chat

BROKEN = Said(reasoning="The weather, then.", calls=(("get_wether", '{"x": 1'),))
CALL = (("get_weather", PARIS_TEXT),)


@both
@pytest.mark.parametrize(
    ("second", "told"),
    [
        (Said(reasoning="Paris.", calls=CALL), "The weather, then.\n\nParis."),
        (Said(text="<think>Paris.</think>", calls=CALL), "The weather, then.\n\nParis."),
        (Said(calls=CALL), "The weather, then."),
    ],
    ids=["reasoning", "thought in the text", "none"],
)
async def test_the_reasoning_of_each_attempt_is_separated(second: Said, told: str, stream: bool) -> None:
    answer = await chat([BROKEN, second], ASK, stream=stream)

    assert (answer.reasoning, answer.attempts, len(answer.calls)) == (told, 2, 1)


@both
async def test_the_first_reasoning_has_no_separator(stream: bool) -> None:
    answer = await chat([Said(calls=BROKEN.calls), Said(reasoning="Paris.", calls=CALL)], ASK, stream=stream)

    assert (answer.reasoning, answer.attempts) == ("Paris.", 2)
