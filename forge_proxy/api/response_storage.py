"""Stored responses: what requests refer to is read before they are decoded, and responses are saved before they end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import orjson

from forge_proxy.api.bodies import LARGE, SLICED, LargeBodies
from forge_proxy.api.conversation_store import ConversationStore
from forge_proxy.api.response_store import ResponseRetention, ResponseStore
from forge_proxy.api.streaming import StreamEncoder
from forge_proxy.api.surface import DecodedRequest, ReceivedRequest
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.store_errors import StoreUnavailable
from forge_proxy.core.stored_responses import PreviousResponseNotFound, ResponseNotFound, StoredItem, StoredResponse
from forge_proxy.engine.memory import RequestMemory
from forge_proxy.engine.shielded_tasks import ShieldedTasks
from forge_proxy.wire.clients.collector import ResponseCollector
from forge_proxy.wire.clients.responses.encoder import DecodedResponsesRequest, ResponsesEncoder
from forge_proxy.wire.clients.responses.input_items import list_input_items
from forge_proxy.wire.clients.responses.request import decode_request, read_links, reject_links, wants_storing
from forge_proxy.wire.clients.responses.response_object import is_background
from forge_proxy.wire.clients.responses.stored_items import find_references, number_items, resolve_references

MAX_STORED = 16 * 1024 * 1024
"""Bytes of one response with its input. A larger one is delivered, but not stored."""
MAX_CONVERSATION = 16 * 1024 * 1024
"""Bytes of the responses that a request may continue. A conversation that fills a million tokens has about a third."""
_COPIES = 3
"""Memory of stored items, in their sizes: the text, the parsed items, and the messages made of them."""
_SLICE = 256 * 1024
"""Bytes of items that are parsed before the event loop runs other tasks."""
DAY = 24 * 3600
_T = TypeVar("_T")
_LOG = logging.getLogger("forge_proxy.api")


class ResponseStorage:
    """The stored responses of a daemon (`api.surface.SurfaceStorage`). `now` returns the seconds since 1970.

    Without `open_store`, none are stored, and no time is needed.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[ResponseStore]] | None,
        now: Callable[[], float] = lambda: 0.0,
        retention: ResponseRetention | None = None,
        open_conversations: Callable[[], Awaitable[ConversationStore]] | None = None,
    ) -> None:
        self._open_store = open_store
        self.open_conversations = open_conversations
        self.now = now
        self.retention = retention or ResponseRetention()
        self._tasks = ShieldedTasks()

    async def decode(
        self, received: ReceivedRequest, large_bodies: LargeBodies, response_id: str | None = None
    ) -> DecodedResponsesRequest:
        """Decode a request together with what it refers to. Raises `InvalidRequest` or `MemoryFull`.

        `response_id` is the id of a response that is made in the background.
        """
        response_id, body = response_id or f"resp_{secrets.token_hex(16)}", received.body
        read_links(body)  # raises before the store is opened for it
        if is_background(body):
            self._check_background(body)
        default = self.retention.is_default or is_background(body)
        is_stored = self._open_store is not None and wants_storing(body, default=default)
        if is_stored:
            await self._store()  # raises before the model has worked for it
        body, stored, size = await self._resolve(body, received.owner, received.memory)
        earlier = await _parse(stored)
        size += received.size
        convert = partial(decode_request, body, earlier, is_stored=is_stored)
        converted = await large_bodies.convert(size, convert)
        if size > SLICED:
            converted = replace(converted, chat=replace(converted.chat, is_large=True))
        return DecodedResponsesRequest(converted, response_id, received.owner, size)

    async def save(self, decoded: DecodedRequest, encoder: StreamEncoder) -> None:
        """Store a streamed response before its last event is sent. If that fails, the response reports it."""
        assert isinstance(decoded, DecodedResponsesRequest)  # noqa: S101  # `decode` returned it
        assert isinstance(encoder, ResponsesEncoder)  # noqa: S101
        if encoder.store:
            encoder.close()
            encoder.store = await self._save(decoded, encoder)

    async def encode_response(
        self, decoded: DecodedRequest, response: ResponseCollector, request_id: str, created: int
    ) -> bytes:
        """Encode a response that is not streamed, and store it."""
        assert isinstance(decoded, DecodedResponsesRequest)  # noqa: S101
        encoder = decoded.build_whole_encoder(response, request_id, created)
        await self.save(decoded, encoder)
        return encoder.response()

    async def get(self, response_id: str, owner: str) -> bytes:
        """Return a stored response as JSON. Raises `ResponseNotFound`."""
        store = await self._store_with(response_id)
        stored = await self.run(store.get(response_id, owner, self.now()))
        return stored.document.encode()

    async def delete(self, response_id: str, owner: str) -> None:
        """Delete a stored response. Raises `ResponseNotFound`."""
        store = await self._store_with(response_id)
        await self.run(store.delete(response_id, owner, self.now()))

    async def input_items(self, response_id: str, owner: str, memory: RequestMemory) -> list[JsonObject]:
        """Return the input items of a stored response: those of all responses that it continues, then its own.

        Raises `ResponseNotFound` or `MemoryFull`.
        """
        charge = _make_charge(memory)
        store, now = await self._store_with(response_id), self.now()
        stored = await self.run(store.get(response_id, owner, now))
        earlier: Sequence[StoredItem] = ()
        if stored.previous_id is not None:
            earlier = await self.run(store.read_chain(stored.previous_id, owner, now, MAX_CONVERSATION, charge))
        own = await self.run(store.read_input(response_id, owner, now))
        charge(sum(len(item.data) for item in own))
        return await _parse([*earlier, *own])

    async def run(self, operation: Coroutine[Any, Any, _T]) -> _T:
        """Run a store operation, which no client that disconnects cancels: that would discard the connection."""
        return await self._tasks.run(operation)

    async def conversation_items(self, conversation_id: str, owner: str, memory: RequestMemory) -> list[JsonObject]:
        """Return all items of a conversation, oldest first. Raises `InvalidRequest` or `MemoryFull`."""
        store, charge = await self._store(), _make_charge(memory)
        read = store.read_conversation(conversation_id, owner, self.now(), MAX_CONVERSATION, charge)
        return await _parse(await self.run(read))

    def _check_background(self, body: JsonObject) -> None:
        if body.get("store") is False:
            raise InvalidRequest("store", "a response in the background is stored; omit it or send true")
        if self._open_store is None:
            raise InvalidRequest("background", "store.responses is never: this daemon stores no responses")

    async def _resolve(
        self, body: JsonObject, owner: str, memory: RequestMemory
    ) -> tuple[JsonObject, Sequence[StoredItem], int]:
        """Return a body with the items that its input refers to, the items of the conversation before it, and the size
        of both.
        """
        previous, conversation = read_links(body)
        references = find_references(body)
        if previous is None and conversation is None and not references:
            return body, (), 0
        if self._open_store is None:
            reject_links(previous, conversation)
            return resolve_references(body, {}), (), 0
        store, now, charge, size = await self._store(), self.now(), _make_charge(memory), 0
        if references:
            found = await self.run(store.read_items(references, owner, now, MAX_CONVERSATION, charge))
            size = sum(len(found[name].data) for name in references if name in found)
            if size > MAX_CONVERSATION:
                raise InvalidRequest("input", f"the items that it refers to have more than {MAX_CONVERSATION} bytes")
            parsed = await _parse([*found.values()])
            body = resolve_references(body, dict(zip(found, parsed, strict=True)))
        items: Sequence[StoredItem] = ()
        try:
            if conversation is not None:
                items = await self.run(store.read_conversation(conversation, owner, now, MAX_CONVERSATION, charge))
            elif previous is not None:
                items = await self.run(store.read_chain(previous, owner, now, MAX_CONVERSATION, charge))
        except ResponseNotFound as error:
            raise PreviousResponseNotFound(previous or "") from error
        return body, items, size + sum(len(item.data) for item in items)

    async def _save(self, decoded: DecodedResponsesRequest, encoder: ResponsesEncoder) -> bool:
        """Return whether a complete response was stored. The client has it in any case."""
        body, now = decoded.converted.body, self.now()
        previous, conversation = read_links(body)
        document = encoder.response().decode()
        to_stored = partial(_to_stored, body, encoder, MAX_STORED - len(document))
        is_large = decoded.size + len(document) > LARGE
        items = await asyncio.to_thread(to_stored) if is_large else to_stored()
        if items is None:
            return _report_unsaved(encoder, f"it has more than {MAX_STORED} bytes with its input")
        expires = now + self.retention.days * DAY
        response = StoredResponse(encoder.response_id, decoded.owner, now, expires, document, previous, conversation)
        try:
            store = await self._store()
            await self.run(store.save(response, items))
        except StoreUnavailable as error:
            return _report_unsaved(encoder, error.summary)
        return True

    async def _store_with(self, response_id: str) -> ResponseStore:
        if self._open_store is None:
            raise ResponseNotFound(response_id)
        return await self._open_store()

    async def _store(self) -> ResponseStore:
        if self._open_store is None:
            raise StoreUnavailable("store.responses is never; set it to requested or always")
        return await self._open_store()


def _make_charge(memory: RequestMemory) -> Callable[[int], None]:
    """Return a function that charges stored items by the bytes that their text has."""
    return lambda size: memory.take(_COPIES * size)


async def _parse(items: Sequence[StoredItem]) -> list[JsonObject]:
    """Parse stored items; the event loop runs other tasks in between."""
    parsed: list[JsonObject] = []
    size = 0
    for item in items:
        parsed.append(orjson.loads(item.data))
        size += len(item.data)
        if size > _SLICE:
            size = 0
            await asyncio.sleep(0)
    return parsed


def _to_stored(body: JsonObject, encoder: ResponsesEncoder, limit: int) -> list[StoredItem] | None:
    """Return the items of a request and its response; None if they have more than `limit` bytes."""
    own = number_items(list_input_items(body.get("input")), encoder.response_id.removeprefix("resp_"))
    kinds: tuple[tuple[Literal["input", "output"], list[JsonObject]], ...] = (
        ("input", own),
        ("output", encoder.output),
    )
    stored: list[StoredItem] = []
    for kind, items in kinds:
        for item in items:
            data = orjson.dumps(item).decode()
            limit -= len(data)
            if limit < 0:
                return None
            stored.append(StoredItem(str(item.get("id")), kind, data))
    return stored


def _report_unsaved(encoder: ResponsesEncoder, reason: str) -> bool:
    fields = {"event": "response not stored", "response": encoder.response_id, "reason": reason}
    _LOG.warning("response not stored: %s", reason, extra={"log_fields": fields})
    return False
