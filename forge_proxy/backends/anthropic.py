"""Anthropic's Messages API, of Anthropic or a compatible server, through the official SDK.

Importing the SDK takes more than a second, so `daemon` imports this module only if this backend is selected. The SDK
sends, authenticates and paginates; its retries are off. `wire.backends.anthropic` decodes the responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

import anthropic
import httpx2
import orjson
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent

from forge_proxy.backends.body_slices import Undecodable, find_encoding
from forge_proxy.backends.exchange import check_status, to_fault, trace_headers, write_pieces
from forge_proxy.backends.raw_relay import refuse_route
from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendFault, BackendTimeout, BackendUnreachable
from forge_proxy.core.chat import ModelCall, ModelCard, find_window
from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.backends.anthropic.capabilities import ModelFacts, decode_card, decode_facts
from forge_proxy.wire.backends.anthropic.errors import find_status
from forge_proxy.wire.backends.anthropic.request import encode_call
from forge_proxy.wire.backends.anthropic.stream import MessageReader
from forge_proxy.wire.backends.openai.errors import decode_error
from forge_proxy.wire.relay import RawCall
from forge_proxy.wire.sse import MAX_RESPONSE, TooLarge

_KEPT_HEADERS = ("retry-after", "retry-after-ms", "request-id")
_SHORT = 5.0
"""Timeout in seconds for requests that run no model."""
_RawResponse: TypeAlias = anthropic.AsyncAPIResponse[anthropic.AsyncStream[RawMessageStreamEvent]]
_PAGE = 1000
"""Models per page of the model list; the API's maximum."""


class AnthropicMessages:
    """The adapter. Create it inside a running event loop and `close` it. `http` replaces the SDK's own HTTP client."""

    kind = "anthropic"

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        connect_seconds: float,
        silence_seconds: float,
        http: httpx2.AsyncClient | None = None,
        max_response: int = MAX_RESPONSE,
    ) -> None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, host, parts.path.rstrip("/").removesuffix("/v1"), "", ""))
        self._silence = silence_seconds
        self._max_response = max_response
        timeout = httpx2.Timeout(silence_seconds, connect=connect_seconds, pool=None)
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=self.url,
            max_retries=0,  # the engine retries, and clients do
            timeout=timeout,
            # A compressed stream would arrive in blocks instead of token by token.
            default_headers={"Accept-Encoding": "identity"},
            open_telemetry=False,
            http_client=http or anthropic.DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False),
        )
        self._facts: dict[str, ModelFacts] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """See `engine.ports.RawRelay`. The API has none of the relayed routes."""
        return refuse_route(self.url, self.kind, call)

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`.

        Always requests a stream: the service rejects long responses without streaming.
        """
        body, names = encode_call(call, await self._facts_of(call.model.served or ""))
        with self._faults():
            async with self._open_response(call, body) as response:
                if unexpected := check_status(self.url, response.status_code, response.headers):
                    raise unexpected
                self._refuse_undecodable(response.headers.get("content-encoding", ""))
                reader = MessageReader(
                    names,
                    call.model.response_name,
                    limit=self._max_response,
                    buffered=call.buffered,
                    declared_events=response.headers.get("content-type", "").startswith("text/event-stream"),
                    reports_stop=call.request.is_converted,
                )
                async for piece in response.iter_bytes():
                    for chunk in reader.feed(piece):
                        yield chunk
                    self._check(reader)
                    if reader.is_done:
                        return
        for chunk in reader.end():
            yield chunk
        if not reader.has_finish_reason:
            self._check(reader)
            raise BackendBroke(self.url, "the stream ended without a stop reason")

    @asynccontextmanager
    async def _open_response(self, call: ModelCall, body: dict[str, Json]) -> AsyncGenerator[_RawResponse]:
        """Send a body. A large one is serialized in slices, because the SDK would block the event loop."""
        arguments = _arguments(body)
        if not call.request.is_large:
            headers = trace_headers({}, call)
            sending = self._client.messages.with_streaming_response.create(
                **arguments, extra_headers=headers, stream=True
            )
            async with sending as response:
                yield response
            return
        more = arguments.pop("extra_body")
        pieces = await write_pieces({**arguments, "stream": True, **more}, _as_sdk)
        answer: Any = await self._client.post(
            "/v1/messages",
            content=_Pieces(pieces),
            cast_to=Message,
            stream=True,
            stream_cls=anthropic.AsyncStream[RawMessageStreamEvent],
            options={
                "headers": {
                    "X-Stainless-Raw-Response": "stream",
                    "Content-Length": str(sum(map(len, pieces))),
                    **trace_headers({}, call),
                }
            },
        )
        response = cast("_RawResponse", answer)
        try:
            yield response
        finally:
            await response.close()

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`."""
        cards: list[ModelCard] = []
        with self._json_faults():
            page = await self._client.models.list(limit=_PAGE, timeout=_SHORT)
            while page.data:
                for model in page.data:
                    entry = cast("JsonObject", model.to_dict(mode="json"))
                    if (card := decode_card(entry)) is not None:
                        cards.append(card)
                        self._facts[card.id] = decode_facts(entry)
                if not page.has_next_page():
                    break
                page = await page.get_next_page()
        return cards

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. The service limits tokens and requests per minute, not parallel requests."""
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`."""
        return find_window(await self.models(), model)

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`. The service counts exactly, tools and system message included."""
        body, _ = encode_call(call, await self._facts_of(call.model.served or ""))
        counted = {key: body[key] for key in _COUNTED if key in body}
        with self._json_faults():
            if not call.request.is_large:
                answer = await self._client.messages.count_tokens(**cast("Any", counted), timeout=_SHORT)
                return answer.input_tokens
            pieces = await write_pieces(counted, _as_sdk)
            answer = await self._client.post(
                "/v1/messages/count_tokens",
                content=_Pieces(pieces),
                cast_to=MessageTokensCount,
                options={"headers": {"Content-Length": str(sum(map(len, pieces)))}, "timeout": _SHORT},
            )
            return answer.input_tokens

    async def health(self) -> Health:
        """See `engine.ports.Backend`."""
        try:
            with self._json_faults():
                await self._client.models.list(limit=1, timeout=_SHORT)
        except BackendError as error:
            return Health("loading", error.server_message) if error.status == 503 else Health("down", str(error))
        except BackendFault as fault:
            return Health("down", str(fault))
        return Health("ok")

    async def _facts_of(self, model: str) -> ModelFacts:
        """Return the capabilities of a model. An alias is not in the model list, so it is requested once."""
        if model not in self._facts:
            try:
                with self._json_faults():
                    found = await self._client.models.retrieve(model, timeout=_SHORT)
                    self._facts[model] = decode_facts(cast("JsonObject", found.to_dict(mode="json")))
            except BackendError as error:
                if error.status != 404:  # 404: a server without this route
                    return ModelFacts()
                self._facts[model] = ModelFacts()
            except (BackendFault, ValueError):
                return ModelFacts()
        return self._facts[model]

    def _check(self, reader: MessageReader) -> None:
        """Raise a `BackendFault` if the response is unreadable or ended before it began."""
        fault = reader.fault
        if fault is not None:
            if isinstance(fault, TooLarge) or fault.error is None:
                raise to_fault(self.url, fault, self._max_response) from fault
            raise decode_error(self.url, _status_in(fault.error), fault.error, {}).mark_inside_response() from fault
        if reader.is_done and not reader.has_finish_reason:
            raise BackendBroke(self.url, "the stream ended before a response began")

    def _refuse_undecodable(self, encoding: str) -> None:
        """Raise `BackendBroke` for a content encoding that the HTTP client ignores instead of decoding it."""
        try:
            find_encoding(encoding)
        except Undecodable as exc:
            raise BackendBroke(self.url, str(exc)) from exc

    @contextmanager
    def _faults(self) -> Generator[None]:
        """Convert errors of the SDK and of its HTTP client to core errors."""
        try:
            yield
        except anthropic.APIStatusError as exc:
            if unexpected := check_status(self.url, exc.status_code, exc.response.headers):
                raise unexpected from exc
            headers = {name: exc.response.headers[name] for name in _KEPT_HEADERS if name in exc.response.headers}
            raise decode_error(self.url, exc.status_code, _body_of(exc), headers) from exc
        except anthropic.APIConnectionError as exc:
            self._refuse_transport(exc.__cause__ or exc)
        except httpx2.HTTPError as exc:
            self._refuse_transport(exc)
        except anthropic.APIError as exc:
            raise BackendBroke(self.url, exc.message) from exc

    @contextmanager
    def _json_faults(self) -> Generator[None]:
        """Convert errors like `_faults`, for a request whose response is one JSON object."""
        with self._faults():
            try:
                yield
            except AttributeError as exc:  # the SDK returns a response that is not JSON as text, and fails on its pages
                raise BackendBroke(self.url, "not JSON; check what responds at backend.url") from exc

    def _refuse_transport(self, exc: BaseException) -> NoReturn:
        match exc:
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
                raise BackendUnreachable(self.url, str(exc).lower() or "no connection in time") from exc
            case httpx2.TimeoutException():
                raise BackendTimeout(self.url, self._silence) from exc
            case _:
                raise BackendBroke(self.url, str(exc) or type(exc).__name__) from exc


_COUNTED = (
    "messages",
    "model",
    "cache_control",
    "system",
    "thinking",
    "tool_choice",
    "tools",
)
"""Fields of a token count request, in the SDK's order."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _as_sdk(value: Json) -> bytes:
    """Serialize a key, string or number like the SDK: 1e-05 instead of 1e-5."""
    return _ENCODER.encode(value).encode()


class _Pieces:
    """A body in pieces. It can be sent more than once."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def _arguments(body: dict[str, Json]) -> dict[str, Any]:
    """Return the body as arguments of the SDK's method: its required three, and the others as `extra_body`.

    In a JSON Schema for the response, the SDK moves unsupported keywords into descriptions.
    """
    own = {key: body.pop(key) for key in ("max_tokens", "messages", "model")}
    config = body.get("output_config")
    form = config.get("format") if is_object(config) else None
    if is_object(config) and is_object(form):
        try:
            schema: Json = anthropic.transform_schema(cast("dict[str, Any]", form["schema"]))
        except ValueError as exc:
            raise InvalidRequest("response_format.json_schema.schema", str(exc)) from exc
        body["output_config"] = {**config, "format": {**form, "schema": schema}}
    return {**own, "extra_body": body}


def _body_of(error: anthropic.APIStatusError) -> Json:
    """Return the body of an error response, parsed if it is JSON."""
    if error.body is not None and not isinstance(error.body, str):
        return cast("Json", error.body)
    try:
        return orjson.loads(error.response.content)
    except (orjson.JSONDecodeError, httpx2.StreamError):
        return error.response.text if error.response.is_closed and error.body is None else str(error.body or "")


def _status_in(body: Json) -> int:
    """Return the status of an error in a stream: its `code` (OpenAI-compatible servers), or by its type."""
    error = body.get("error") if is_object(body) else None
    code = error.get("code") if is_object(error) else None
    return code if isinstance(code, int) and 400 <= code < 600 else find_status(body)
