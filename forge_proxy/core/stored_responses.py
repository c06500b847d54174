"""Responses that are stored for later requests of the same client, and the errors about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forge_proxy.core.errors import ForgeError, InvalidRequest

Charge: TypeAlias = Callable[[int], None]
"""Called with the bytes of stored items before they are read. Raises `ForgeError` if there is no memory for them."""
_MAX_QUOTED = 80
"""Maximum length of an id quoted in a message: it may be anything that a URL can contain."""


def charge_nothing(_: int) -> None:
    """Charge no memory budget."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A stored response. Times are in seconds since 1970."""

    id: str
    owner: str
    """Whose it is: a label of the API key that made the request."""
    created_at: float
    expires_at: float
    document: str
    """The response as JSON."""
    previous_id: str | None = None
    """The response that it continues."""
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item of a stored response: of the request's own input, or of the output."""

    id: str
    kind: Literal["input", "output"]
    data: str
    """The item as JSON."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation, to which responses and clients add items. Times are in seconds since 1970."""

    id: str
    owner: str
    created_at: float
    expires_at: float
    metadata: str = "{}"
    """The client's metadata as JSON."""


class ConversationNotFound(ForgeError):
    """No conversation with that id is stored for this client."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation with id {quote_id(conversation_id)} not found.")


class ItemNotFound(ForgeError):
    """A conversation has no item with that id."""

    def __init__(self, item_id: str) -> None:
        super().__init__(f"Item with id {quote_id(item_id)} not found in this conversation.")


class ResponseNotFound(ForgeError):
    """No response with that id is stored for this client."""

    def __init__(self, response_id: str) -> None:
        super().__init__(f"Response with id {quote_id(response_id)} not found.")


class PreviousResponseNotFound(InvalidRequest):
    """`previous_response_id` names no stored response of this client, or one whose conversation is incomplete."""

    def __init__(self, response_id: str) -> None:
        super().__init__(
            "previous_response_id",
            f"Previous response with id {quote_id(response_id)} not found. It was made without `store: true`, has "
            "expired, was deleted, or belongs to another key.",
        )


class NotCancellable(ForgeError):
    """Only a response that is made in the background can be cancelled; others end with their connection."""

    def __init__(self) -> None:
        super().__init__("Only responses made with `background: true` can be cancelled.")


def quote_id(text: str) -> str:
    """Return an id as messages quote it."""
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…")
