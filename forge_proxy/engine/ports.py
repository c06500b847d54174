"""What the engine needs from outside, said by the engine. Adapters fit by shape and import nothing from here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from forge_proxy.core.capability import CapabilityCard
from forge_proxy.core.chat import ModelCall, ModelCard
from forge_proxy.core.guardrails.extraction import Extraction
from forge_proxy.core.guardrails.turn import Turn
from forge_proxy.core.hardware import HardwareProfile
from forge_proxy.core.health import Health
from forge_proxy.core.stream import Chunk, Reply
from forge_proxy.engine.events import Event


class Backend(Protocol):
    """A model server."""

    @property
    def url(self) -> str:
        """Where it is, for messages and logs; never with credentials in it."""
        ...

    def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """The answer, chunk by chunk; whole answers come as one. Closing it stops the generation.

        Raises `BackendUnreachable`, `BackendTimeout`, `BackendBroke` or `BackendError`. Before the first chunk it
        may be `RequestFormatRejected`, if another format may be accepted, or `LimitTooLarge`, if a smaller one may be.
        """
        ...

    async def models(self) -> Sequence[ModelCard]:
        """The models it serves. Raises like `stream`."""
        ...

    async def slots(self) -> int | None:
        """How many requests it works on at a time; None where it does not tell. Raises like `stream`."""
        ...

    async def context_window(self, model: str | None = None) -> int | None:
        """Tokens that one request to this model may have, prompt and answer together, as it is served now; None where
        the server does not tell. `model` None is the only one there is. Raises like `stream`.
        """
        ...

    async def count_tokens(self, call: ModelCall) -> int | None:
        """How many tokens the prompt of this call has; None where it does not tell. Raises like `stream`."""
        ...

    async def health(self) -> Health:
        """Whether it can be asked now. Raises nothing."""
        ...


class Resizer(Protocol):
    """Gives a model server another window: `-c` of one that is ours, `num_ctx` of an Ollama."""

    def served(self) -> Sequence[str | None]:
        """The models that can be given a window now: of a catalog those that are served now, else None, which stands
        for all that there are.
        """
        ...

    async def resize(self, tokens: int | None, model: str | None = None) -> None:
        """That many tokens for one request to this model from now on; None leaves it to the server. Nothing where the
        model is not served any more.

        Answers that are under way end before, requests that come wait. On failure the server is as it was before.
        Raises `BackendFault`.
        """
        ...


class HardwareSource(Protocol):
    """What the machine has."""

    async def profile(self) -> HardwareProfile:
        """Waits for it to be found out, the first time, with a bound. Raises nothing."""
        ...


class Clock(Protocol):
    """Time, handed in so that tests need not wait for it."""

    def now(self) -> float:
        """Seconds from some fixed moment."""
        ...


class ThoroughReader(Protocol):
    """Reads replies that are long or badly broken, without holding up the event loop."""

    async def read(self, turn: Turn, reply: Reply, *, lightly: bool = False) -> Extraction | None:
        """What a thorough reading finds, or a light one; None when none can be had in time. Raises nothing."""
        ...


class CardStore(Protocol):
    """Keeps what was found out about the models of one server."""

    def load(self) -> Sequence[CapabilityCard]:
        """The cards that are kept. Raises nothing."""
        ...

    def keep(self, card: CapabilityCard) -> None:
        """Keep a card in place of the model's earlier one, if that is possible. Raises nothing."""
        ...


class Observer(Protocol):
    """Hears what happened. Must not raise and must not wait."""

    def __call__(self, event: Event, /) -> None: ...
