"""Passes the events of the engine on to several listeners, of which none can disturb a request or another listener."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from forge_proxy.engine.events import Event
from forge_proxy.engine.ports import Observer

_LOG = logging.getLogger("forge_proxy.telemetry")


class EventFanOut:
    """An observer of the engine that passes each event to its listeners, in the order in which they were added.

    A listener that raises is reported the first time, but still receives later events.
    """

    def __init__(self, listeners: Sequence[Observer] = ()) -> None:
        self._listeners = list(listeners)
        self._reported: set[Observer] = set()

    def add(self, listener: Observer) -> None:
        """Pass later events to this listener too."""
        self._listeners.append(listener)

    def remove(self, listener: Observer) -> None:
        """Pass no more events to this listener."""
        self._listeners.remove(listener)
        self._reported.discard(listener)

    def __call__(self, event: Event, /) -> None:
        """See `engine.ports.Observer`."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:  # noqa: BLE001  # whatever a listener does, the request goes to its end
                if listener not in self._reported:
                    self._reported.add(listener)
                    _LOG.exception("a listener of events failed; it is not reported again")
