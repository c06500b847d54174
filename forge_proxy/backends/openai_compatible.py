"""Any server with `/v1/chat/completions`: llama-server, vLLM, LM Studio, and the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import orjson

from forge_proxy.backends.exchange import (
    OK,
    authorization_header,
    check_status,
    parse_body,
    select_headers,
    strip_credentials,
    to_fault,
    trace_headers,
    write_call,
)
from forge_proxy.backends.http import HttpClient, HttpResponse, read_capped
from forge_proxy.backends.raw_relay import RelayTarget, refuse_route, relay_call
from forge_proxy.core.backend_errors import BackendBroke, BackendError, BackendFault
from forge_proxy.core.chat import ModelCall, ModelCard, find_window
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, JsonObject, is_integer, is_object
from forge_proxy.core.stream import Chunk
from forge_proxy.engine.ports import RawResponse
from forge_proxy.wire.backends.openai.errors import decode_error
from forge_proxy.wire.backends.openai.models import decode_models
from forge_proxy.wire.backends.openai.request import encode_call
from forge_proxy.wire.backends.openai.stream import ChatStreamReader
from forge_proxy.wire.backends.responses import UnreadableResponse
from forge_proxy.wire.relay import RawCall
from forge_proxy.wire.sse import MAX_RESPONSE, TooLarge

_QUICK_SECONDS = 5.0
"""Timeout in seconds for requests that run no model: model list, health."""


class OpenAICompatible:
    """`Backend` adapter for OpenAI-compatible servers. Without a `health_path`, `health` requests the model list.

    `kind` is the name of the server in messages.
    """

    def __init__(
        self,
        url: str,
        http: HttpClient,
        *,
        api_key: str | None = None,
        health_path: str | None = None,
        max_response: int = MAX_RESPONSE,
        kind: str = "openai",
    ) -> None:
        self.url = strip_credentials(url)
        self.kind = kind
        self._base = base_url(self.url)
        self._root = urlunsplit((*urlsplit(self.url)[:2], "", "", ""))
        self._http = http
        self._health_path = health_path
        self._max_response = max_response
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            **authorization_header(url, api_key),
        }

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`."""
        body = await write_call(call, encode_call(call))
        url = f"{self._base}/chat/completions"
        headers = trace_headers(self._headers, call)
        async with self._http.open("POST", url, body=body, headers=headers) as response:
            if response.status != OK:
                raise await self._error(response)
            reader = self._reader(call, response)
            async for piece in response.pieces():
                for chunk in reader.feed(piece):
                    yield _match_streaming(chunk, call, reader)
                self._check(reader)
                if reader.is_done:
                    await response.finish()
                    return
            is_complete = reader.has_finish_reason
            for chunk in reader.end():
                yield _match_streaming(chunk, call, reader)
            if is_complete:  # after the finish reason, only usage or `[DONE]` can be missing
                return
            self._check(reader)
            if not (reader.has_finish_reason or reader.is_done):
                raise BackendBroke(self.url, "the stream ended without a finish reason")

    def _reader(self, call: ModelCall, response: HttpResponse) -> ChatStreamReader:
        renamed = call.model.response_name
        verbatim = call.verbatim and renamed is None
        wanted = "return_progress" in call.request.body
        return ChatStreamReader(
            verbatim=verbatim,
            stream=call.stream,
            model=renamed,
            progress=call.dialect.llama_cpp and call.stream and not (verbatim and wanted),
            limit=self._max_response,
            buffered=call.buffered,
            declared_events=response.headers.get("content-type", "").startswith("text/event-stream"),
        )

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`."""
        return decode_models(await self._get(f"{self._base}/models"))

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. Only llama-server reports them, and not in router mode."""
        slots = (await self._props()).get("total_slots")
        return slots if is_integer(slots) and slots > 0 else None

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`. llama-server reports it per slot, others in the model list."""
        settings = (await self._props()).get("default_generation_settings")
        window = settings.get("n_ctx") if is_object(settings) else None
        if is_integer(window) and window > 0:
            return window
        return find_window(await self.models(), model)

    async def _props(self) -> JsonObject:
        """Return llama-server's `/props`; empty if the server has no such route."""
        try:
            props = await self._get(f"{self._root}/props")
        except BackendError as error:
            if error.status == 503:  # llama-server is loading and reports them later
                raise
            return {}
        return props if is_object(props) else {}

    async def read_template(self, model: str | None) -> str | None:
        """See `chat_templates.server.TemplateServer`. Only llama-server reports it."""
        props = await self._props()
        template = props.get("chat_template_tool_use") or props.get("chat_template")
        return template if isinstance(template, str) and template else None

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        """See `chat_templates.server.TemplateServer`."""
        url = f"{self._root}/apply-template"
        async with self._http.open(
            "POST", url, body=orjson.dumps(body), headers=self._headers, seconds=_QUICK_SECONDS
        ) as response:
            if response.status != OK:
                raise await self._error(response)
            rendered = parse_body(await response.read())
        prompt = rendered.get("prompt") if is_object(rendered) else None
        return prompt if isinstance(prompt, str) else None

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`. llama-server counts exactly, with its chat template applied."""
        if not call.dialect.llama_cpp:
            return None
        body = await write_call(call, encode_call(call))
        url = f"{self._base}/chat/completions/input_tokens"
        async with self._http.open("POST", url, body=body, headers=self._headers, seconds=_QUICK_SECONDS) as response:
            if response.status != OK:
                raise await self._error(response)
            counted = parse_body(await response.read())
        tokens = counted.get("input_tokens") if is_object(counted) else None
        return tokens if is_integer(tokens) else None

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """See `engine.ports.RawRelay`. Ollama's own routes are not served."""
        if call.route.startswith("/api/"):
            return refuse_route(self.url, self.kind, call)
        below_v1 = call.route.removeprefix("/v1/")
        url = self._root + call.route if below_v1 == call.route else f"{self._base}/{below_v1}"
        return relay_call(RelayTarget(self._http, self.url, self.kind, self._headers, decode_error), url, call)

    async def health(self) -> Health:
        """See `engine.ports.Backend`."""
        try:
            if self._health_path is None:
                await self.models()
            else:
                await self._get(self._root + self._health_path)
        except BackendError as error:
            return Health("loading", error.server_message) if error.status == 503 else Health("down", str(error))
        except BackendFault as fault:
            return Health("down", str(fault))
        return Health("ok")

    async def _get(self, url: str) -> Json:
        async with self._http.open("GET", url, headers=self._headers, seconds=_QUICK_SECONDS) as response:
            if response.status != OK:
                raise await self._error(response)
            return parse_body(await response.read())

    def _check(self, reader: ChatStreamReader) -> None:
        """Raise a `BackendFault` if the response is unreadable or ended before it began."""
        if reader.fault is not None:
            raise self._convert_unreadable(reader.fault) from reader.fault
        if reader.is_done and not reader.has_begun:
            raise BackendBroke(self.url, "the stream ended before a response began")

    def _convert_unreadable(self, fault: UnreadableResponse | TooLarge) -> BackendFault:
        """Return the error for an unreadable response: the server's own error, or a malformed response."""
        if isinstance(fault, UnreadableResponse) and fault.error is not None:
            return decode_error(self.url, _status_in(fault.error), fault.error, {}).mark_inside_response()
        return to_fault(self.url, fault, self._max_response)

    async def _error(self, response: HttpResponse) -> BackendFault:
        """Return the error for a status other than 200."""
        if unexpected := check_status(self.url, response.status, response.headers):
            return unexpected
        return decode_error(
            self.url, response.status, parse_body(await read_capped(response)), select_headers(response)
        )


def _match_streaming(chunk: Chunk, call: ModelCall, reader: ChatStreamReader) -> Chunk:
    """Drop the verbatim form if the client requested a stream and the server sent one object, or vice versa."""
    return replace(chunk, as_sent=None) if chunk.as_sent is not None and reader.is_whole is call.stream else chunk


def base_url(url: str) -> str:
    """Return the base of `/chat/completions`: append `/v1` to a bare host, keep any other path."""
    parts = urlsplit(url.rstrip("/"))
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/v1", "", ""))


def _status_in(body: Json) -> int:
    """Return the status for an error inside a stream: its `code`, or 502."""
    error = body.get("error") if is_object(body) else None
    code = error.get("code") if is_object(error) else None
    return code if is_integer(code) and 400 <= code < 600 else 502
