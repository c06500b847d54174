"""OpenAI's Conversations API: `/v1/conversations`, whose items requests to `/v1/responses` continue."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from forge_proxy.api.bodies import LargeBodies, collect_slices, run_slices
from forge_proxy.api.conversation_store import ConversationStore
from forge_proxy.api.endpoint import CLIENT_CLOSED_REQUEST, read_json
from forge_proxy.api.error_responses import error_response
from forge_proxy.api.identity import owner_of, request_id_of
from forge_proxy.api.limits import memory_of
from forge_proxy.api.paging import read_page
from forge_proxy.api.response_storage import DAY, MAX_CONVERSATION, ResponseStorage
from forge_proxy.core.errors import ForgeError, InvalidRequest
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.stored_responses import ItemNotFound, StoredConversation, StoredItem
from forge_proxy.wire.clients.responses.conversations import decode_items, encode_conversation, read_metadata
from forge_proxy.wire.clients.responses.stored_items import list_items, number_items

_ROUTE = "/v1/conversations"
_MAX_ADDED = 20
"""Items that one request may add; OpenAI's limit."""


class ConversationEndpoints:
    """The endpoints for conversations."""

    def __init__(self, responses: ResponseStorage, large_bodies: LargeBodies) -> None:
        self._responses = responses
        self._large_bodies = large_bodies
        self._now = responses.now

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes."""
        routes: list[tuple[str, str, Callable[[Request], Awaitable[Any]]]] = [
            ("", "POST", self._create),
            ("/{id}", "GET", self._get),
            ("/{id}", "POST", self._update),
            ("/{id}", "DELETE", self._delete),
            ("/{id}/items", "GET", self._list),
            ("/{id}/items", "POST", self._add),
            ("/{id}/items/{item}", "GET", self._get_item),
            ("/{id}/items/{item}", "DELETE", self._delete_item),
        ]
        for path, method, answer in routes:
            app.add_route(f"{_ROUTE}{path}", partial(_respond, answer), methods=[method])

    async def _create(self, request: Request) -> JsonObject:
        store, now = await self._store(), self._now()
        body, _ = await read_json(request, self._large_bodies)
        expires = now + self._responses.retention.days * DAY
        name = f"conv_{secrets.token_hex(24)}"
        conversation = StoredConversation(name, owner_of(request), now, expires, read_metadata(body))
        items = decode_items(body, _MAX_ADDED, is_required=False)
        await self._responses.run(store.create(conversation))
        if items:
            await self._store_items(conversation, items)
        return encode_conversation(conversation)

    async def _get(self, request: Request) -> JsonObject:
        return encode_conversation(await self._find(request))

    async def _update(self, request: Request) -> JsonObject:
        store = await self._store()
        metadata = read_metadata((await read_json(request, self._large_bodies))[0])
        name, owner = request.path_params["id"], owner_of(request)
        return encode_conversation(await self._responses.run(store.update(name, owner, self._now(), metadata)))

    async def _delete(self, request: Request) -> JsonObject:
        store, name = await self._store(), request.path_params["id"]
        await self._responses.run(store.delete(name, owner_of(request), self._now()))
        return {"id": name, "object": "conversation.deleted", "deleted": True}

    async def _list(self, request: Request) -> JsonObject:
        limit, order = read_page(request)
        items = await self._items(request)
        after = request.query_params.get("after")
        return list_items(items, after=after, limit=limit, newest_first=order == "desc")

    async def _add(self, request: Request) -> JsonObject:
        found = await self._find(request)
        body, _ = await read_json(request, self._large_bodies)
        added = await self._store_items(found, decode_items(body, _MAX_ADDED))
        return list_items(added, after=None, limit=len(added), newest_first=False)

    async def _get_item(self, request: Request) -> JsonObject:
        wanted = request.path_params["item"]
        for item in await self._items(request):
            if item.get("id") == wanted:
                return item
        raise ItemNotFound(wanted)

    async def _delete_item(self, request: Request) -> JsonObject:
        store, name, item = await self._store(), request.path_params["id"], request.path_params["item"]
        found = await self._responses.run(store.remove_item(name, owner_of(request), self._now(), item))
        return encode_conversation(found)

    async def _find(self, request: Request) -> StoredConversation:
        store = await self._store()
        return await self._responses.run(store.get(request.path_params["id"], owner_of(request), self._now()))

    async def _items(self, request: Request) -> list[JsonObject]:
        found = await self._find(request)
        return await self._responses.conversation_items(found.id, found.owner, memory_of(request.scope))

    async def _store_items(self, conversation: StoredConversation, items: list[JsonObject]) -> list[JsonObject]:
        """Add items to a conversation, which is then kept as long as a response made now."""
        store, now, added = await self._store(), self._now(), secrets.token_hex(16)
        expires = now + self._responses.retention.days * DAY
        kept = StoredConversation(
            conversation.id, conversation.owner, conversation.created_at, expires, conversation.metadata
        )
        numbered = number_items(items, added)
        stored = [StoredItem(str(item["id"]), "input", orjson.dumps(item).decode()) for item in numbered]
        await self._responses.run(store.add(kept, added, now, stored, MAX_CONVERSATION))
        return numbered

    async def _store(self) -> ConversationStore:
        if self._responses.open_conversations is None:
            raise InvalidRequest("conversation", "this daemon stores no conversations (store.responses: never)")
        return await self._responses.open_conversations()


async def _respond(answer: Callable[[Request], Awaitable[JsonObject]], request: Request) -> Response:
    headers = {"x-request-id": request_id_of(request)}
    try:
        body = b"".join(await run_slices(collect_slices(await answer(request))))
    except ForgeError as error:
        return error_response(error, request.scope, headers)
    except ClientDisconnect:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return Response(body, media_type=JSONResponse.media_type, headers=headers)
