"""What a run needs from outside, said by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forge_proxy.core.messages import Message


class Memory(Protocol):
    """Keeps what a model is told within what it can read: `ContextManager` does."""

    def maybe_compact(self, messages: Sequence[Message], step_index: int = 0, step_hint: str = "") -> Sequence[Message]:
        """The messages as they are, or a shorter form of them."""
        ...

    def observe_usage(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """These messages had this many tokens, as the model server counts."""
        ...
