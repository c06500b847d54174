"""The form of a model's calls is learned from its chat template, once, and recovers what the tables do not know."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from forge_proxy.backends.openai_compatible import OpenAICompatible
from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.guardrails import GuardPolicy, Switches
from forge_proxy.core.rescue.templates import LearnedTemplate
from forge_proxy.engine import learned_forms
from forge_proxy.engine.answer import Engine
from forge_proxy.engine.config import EngineConfig
from forge_proxy.engine.events import Event, TemplateLearned
from forge_proxy.engine.learned_forms import LearnedForms
from forge_proxy.engine.ports import Clock, Observer
from forge_proxy.telemetry.log_events import to_log_line
from tests.api.test_mistakes import ASK, both
from tests.fakes.says import Said
from tests.fakes.scripted import ScriptedHttp, StillClock, chat
from tests.templates.scoring import open_template

SOURCE = (Path(__file__).parents[1] / "templates" / "own" / "typed-elements.jinja").read_text()
LEARNED = open_template("own", SOURCE).learned
WRITTEN = """Let me see.
<work>
<use routine="get_weather">
<set kind="text" key="city">Paris</set>
<set kind="json" key="days">3</set>
</use>
</work>"""
NOT_LEARNED = LearnedTemplate(None, "no form", digest="d")


class SetClock:
    """A clock that a test sets."""

    time = 0.0

    def now(self) -> float:
        return self.time


class Learner:
    """A `TemplateLearner` that returns these, the last one again and again."""

    def __init__(self, *learned: LearnedTemplate, waits: asyncio.Event | None = None) -> None:
        self._learned = [*learned]
        self._waits = waits
        self.asked: list[tuple[str | None, LearnedTemplate | None]] = []

    async def learn(self, model: str | None, known: LearnedTemplate | None) -> LearnedTemplate:
        self.asked.append((model, known))
        if self._waits:
            await self._waits.wait()
        return self._learned.pop(0) if len(self._learned) > 1 else self._learned[0]


def forms_of(learner: Learner | None, clock: Clock | None = None, observe: Observer = lambda _: None) -> LearnedForms:
    """Forms of which nothing is stored."""
    return LearnedForms(learner, clock or StillClock(), observe, lambda _: None, lambda _, __: None)


@both
async def test_a_call_that_only_the_template_explains_is_delivered(stream: bool) -> None:
    answer = await chat([Said(text=WRITTEN, piece=3)], ASK, stream=stream, templates=Learner(LEARNED))

    assert answer.calls == [("get_weather", {"city": "Paris", "days": 3})]
    assert (answer.text, answer.finish, answer.outcome) == ("Let me see.", "tool_calls", "rescued")


@both
async def test_without_the_template_it_is_text(stream: bool) -> None:
    policy = GuardPolicy(text_responses="accept")

    answer = await chat([Said(text=WRITTEN)], ASK, stream=stream, templates=Learner(NOT_LEARNED), policy=policy)

    assert (answer.calls, answer.text) == ([], WRITTEN)


async def test_a_call_in_that_form_that_the_token_limit_cut_is_not_delivered() -> None:
    said = Said(text=WRITTEN[:-20], finish="length")

    answer = await chat([said], ASK, templates=Learner(LEARNED), policy=GuardPolicy(text_responses="accept"))

    assert answer.calls == []
    assert answer.text is not None
    assert "call of get_weather was cut off" in answer.text


@pytest.mark.parametrize(
    ("body", "switches"),
    [
        ({**ASK, "tool_choice": "none"}, Switches()),
        ({"messages": ASK["messages"]}, Switches()),
        (ASK, Switches(rescue=False)),
    ],
)
async def test_no_template_is_read_if_no_call_can_be_recovered(body: dict[str, object], switches: Switches) -> None:
    learner = Learner(LEARNED)

    await chat([Said(text="Hi.")] * 2, body, templates=learner, policy=GuardPolicy(enabled=switches))

    assert learner.asked == []


async def test_the_template_of_a_model_is_read_once() -> None:
    learner = Learner(LEARNED)
    forms = forms_of(learner)

    found = await asyncio.gather(*(forms.of("m") for _ in range(5)), forms.of("n"))

    assert found == [LEARNED.form] * 6
    assert learner.asked == [("m", None), ("n", None)]
    await forms.of("m")
    assert len(learner.asked) == 2


async def test_a_template_that_takes_long_delays_only_the_first_request_and_is_used_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned_forms, "_WAIT_SECONDS", 0.01)
    waits = asyncio.Event()
    learner = Learner(LEARNED, waits=waits)
    forms = forms_of(learner)

    assert await forms.of("m") is None
    waits.set()
    await forms.learn("m")

    assert await forms.of("m") == LEARNED.form
    assert len(learner.asked) == 1


async def test_later_the_template_is_read_again_without_delaying_a_request() -> None:
    clock = SetClock()
    learner = Learner(LEARNED, NOT_LEARNED)
    forms = forms_of(learner, clock)
    await forms.of("m")

    clock.time += 601

    assert await forms.of("m") == LEARNED.form
    await forms.learn("m")
    assert await forms.of("m") is None
    assert learner.asked == [("m", None), ("m", LEARNED)]


async def test_what_was_learned_is_reported_once_and_kept() -> None:
    heard: list[Event] = []
    kept: list[tuple[str, LearnedTemplate]] = []
    learner = Learner(LEARNED, LEARNED, NOT_LEARNED)

    def keep(model: str, learned: LearnedTemplate) -> None:
        kept.append((model, learned))

    forms = LearnedForms(learner, StillClock(), heard.append, lambda _: None, keep)

    for _ in range(3):
        await forms.learn("m")

    assert kept == [("m", LEARNED), ("m", NOT_LEARNED)]
    assert heard == [
        TemplateLearned("m", "arguments"),
        TemplateLearned("m", None, "the calls have no recognizable form"),
    ]
    lines = [to_log_line(event) for event in heard]
    assert [line.event for line in lines if line] == ["chat template learned", "chat template not learned"]


async def test_what_an_earlier_daemon_learned_is_not_learned_again() -> None:
    learner = Learner(LEARNED)
    forms = LearnedForms(learner, StillClock(), lambda _: None, {"m": LEARNED}.get, lambda _, __: None)

    await forms.of("m")

    assert learner.asked == [("m", LEARNED)]


async def test_without_a_learner_there_is_no_form() -> None:
    assert await forms_of(None).of("m") is None


async def test_what_is_being_learned_ends_with_the_daemon() -> None:
    forms = forms_of(Learner(LEARNED, waits=asyncio.Event()))
    waiting = asyncio.create_task(forms.learn("m"))
    await asyncio.sleep(0)

    await forms.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_the_card_of_a_tested_model_has_what_was_learned_and_is_stored_again_when_that_changes() -> None:
    store = Cards()
    learner = Learner(LEARNED, NOT_LEARNED)
    backend = OpenAICompatible("http://scripted", ScriptedHttp([Said("Hello.")] * 9))
    engine = Engine(EngineConfig(backend, StillClock(), lambda _: None, cards=store, templates=learner))

    card = await engine.test("scripted")
    await engine.forms.learn("scripted")

    assert card.template == LEARNED
    assert [card.template for card in store.kept] == [LEARNED, NOT_LEARNED]


class Cards:
    """A `CardStore` in memory."""

    def __init__(self) -> None:
        self.kept: list[CapabilityCard] = []

    def load(self) -> list[CapabilityCard]:
        return []

    def keep(self, card: CapabilityCard) -> None:
        self.kept.append(card)
