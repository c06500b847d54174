"""Every listener receives every event, whatever another listener does."""

from __future__ import annotations

import logging

import pytest

from forge_proxy.engine.events import Event, FieldsOmitted, SlotsDetected
from forge_proxy.telemetry.fan_out import EventFanOut


def test_a_listener_that_fails_neither_raises_nor_keeps_events_from_others(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        raise RuntimeError("a bug")

    events = EventFanOut([fail, heard.append])
    with caplog.at_level(logging.ERROR, "forge_proxy.telemetry"):
        events(SlotsDetected(1))
        events(SlotsDetected(2))

    assert heard == [SlotsDetected(1), SlotsDetected(2)]
    assert len(caplog.records) == 1


def test_a_removed_listener_receives_nothing_more() -> None:
    heard: list[Event] = []
    events = EventFanOut()
    listener = heard.append

    events.add(listener)
    events(SlotsDetected(1))
    events.remove(listener)
    events(FieldsOmitted(("x",)))

    assert heard == [SlotsDetected(1)]


def test_a_listener_may_remove_itself_while_it_is_called() -> None:
    heard: list[Event] = []
    events = EventFanOut()

    def once(event: Event) -> None:
        events.remove(once)
        heard.append(event)

    events.add(once)
    events.add(heard.append)
    events(SlotsDetected(1))
    events(SlotsDetected(2))

    assert heard == [SlotsDetected(1), SlotsDetected(1), SlotsDetected(2)]
