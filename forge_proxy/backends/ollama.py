"""Ollama, by its native API, which unlike its OpenAI API can set the window and reasoning and reject long prompts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

from forge_proxy.backends.chat_templates import GO_TEMPLATE
from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.exchange import OK, write_call
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.ollama_api import OllamaApi
from forge_proxy.core.backend_errors import (
    BackendBroke,
    BackendError,
    BackendFault,
    ContextOverflow,
    ThinkingNotSupportedError,
)
from forge_proxy.core.chat import ModelCall, ModelCard, find_window
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, JsonObject, is_object
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.events import FieldsOmitted, PromptTruncated
from forge_proxy.engine.ports import Observer, RawResponse
from forge_proxy.wire.backends.ollama.errors import is_cut_call
from forge_proxy.wire.backends.ollama.models import (
    InstalledModel,
    LoadedModel,
    ModelDescription,
    add_tag,
    decode_loaded,
    decode_show,
    decode_tags,
    supports_truncate,
    to_card,
)
from forge_proxy.wire.backends.ollama.options import find_omitted_fields
from forge_proxy.wire.backends.ollama.request import (
    OllamaRequestOptions,
    count_prompt_bytes,
    encode_call,
    encode_loading,
)
from forge_proxy.wire.backends.ollama.stream import OllamaStreamReader
from forge_proxy.wire.backends.openai.reasoning import Think, read_think
from forge_proxy.wire.relay import RawCall
from forge_proxy.wire.sse import MAX_RESPONSE

_PARALLEL_REQUESTS = 8
_REMEMBERED = 256
_BYTES_PER_TOKEN = 6
"""More than the average of prose, code and markup: a prompt has at least one token per six bytes."""


class Ollama:
    """The adapter. `options` may be replaced; later requests use the new ones."""

    kind = "ollama"

    def __init__(
        self,
        url: str,
        http: HttpClient,
        config: OllamaConfig,
        observe: Observer,
        *,
        api_key: str | None = None,
        max_response: int = MAX_RESPONSE,
    ) -> None:
        self._api = OllamaApi(url, http, api_key, max_response=max_response)
        self.url = self._api.url
        self.options = OllamaRequestOptions(config.num_ctx, config.keep_alive)
        self._think = config.think
        self._observe = observe
        self._descriptions: dict[str, tuple[str, ModelDescription]] = {}
        """Digest and description of each model by name."""
        self._without_reasoning: set[str] = set()
        """Names of models that rejected reasoning."""
        self._omitted: set[str] = set()

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`. Always requests a stream, so that a disconnect stops the generation."""
        think = self._thinking(call)
        try:
            async with aclosing(self._send(call, think)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ThinkingNotSupportedError:  # a response to the request itself: no chunk was yielded
            if self._think != "auto" and read_think(call.request.body) is None:
                raise
            self._without_reasoning.add(add_tag(call.model.served or ""))
        else:
            return
        async with aclosing(self._send(call, None)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`."""
        listed = decode_tags(await self._api.get("tags"))
        loaded = {model.name: model for model in await self.loaded()}
        descriptions = await self._describe(listed)
        return [
            to_card(model, descriptions[model.name], loaded.get(model.name), self.options.num_ctx) for model in listed
        ]

    async def read_template(self, model: str | None) -> str | None:
        """See `chat_templates.server.TemplateServer`. Returns Ollama's own template, which only Ollama can render."""
        shown = await self._api.post("show", {"model": model or ""})
        template = shown.get("template") if is_object(shown) else None
        return f"{GO_TEMPLATE}{template}" if isinstance(template, str) else None

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        """See `chat_templates.server.TemplateServer`. Ollama renders without generating since 0.11.11."""
        loading = encode_loading(model or "", self.options)
        options = loading.get("options")
        # An earlier version generates in place of rendering: one token is the least.
        limited: JsonObject = {**(options if is_object(options) else {}), "num_predict": 1}
        asked: JsonObject = {**loading, **body, "options": limited, "stream": False, "_debug_render_only": True}
        rendered = await self._api.post("chat", asked, seconds=None)
        info = rendered.get("_debug_info") if is_object(rendered) else None
        prompt = info.get("rendered_template") if is_object(info) else None
        return prompt if isinstance(prompt, str) else None

    def relay(self, call: RawCall) -> AbstractAsyncContextManager[RawResponse]:
        """See `engine.ports.RawRelay`."""
        return self._api.relay(call)

    async def loaded(self) -> Sequence[LoadedModel]:
        """Return the loaded models. Raises like `stream`."""
        return decode_loaded(await self._api.get("ps"))

    async def load(self, model: str) -> None:
        """Load a model and wait until it is loaded. Raises like `stream`."""
        await self._api.post("chat", encode_loading(model, self.options), seconds=None)

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. Ollama does not report its slots."""
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`. Unknown until a model is loaded, unless it is configured."""
        return find_window(await self.models(), None if model is None else add_tag(model))

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`. Ollama has no route that counts tokens."""
        return None

    async def health(self) -> Health:
        """See `engine.ports.Backend`. Requests the version, which loads no model."""
        try:
            await self._api.get("version")
        except BackendError as error:
            return Health("loading", error.server_message) if error.status == 503 else Health("down", str(error))
        except BackendFault as fault:
            return Health("down", str(fault))
        return Health("ok")

    async def _send(self, call: ModelCall, think: Think | None) -> AsyncGenerator[Chunk]:
        encoded = encode_call(call, self.options, think)
        body = await write_call(call, encoded)
        self._report_omitted(call)
        reader = OllamaStreamReader(call.model.response_name, limit=self._api.max_response, buffered=call.buffered)
        async with self._api.chat(call, body) as response:
            if response.status != OK:
                yield self._end_at_limit(encoded, await self._api.error(response))
                return
            async for piece in response.pieces():
                for chunk in reader.feed(piece):
                    yield chunk
                if reader.fault or reader.is_done:
                    break
            else:
                for chunk in reader.end():
                    yield chunk
            if reader.fault is not None:
                yield self._end_at_limit(encoded, self._api.fault(reader.fault))
                return
            if not reader.is_done:
                raise BackendBroke(self.url, "the stream ended without its last line")
            await response.finish()
        await self._check_truncation(call, encoded, reader.prompt_tokens)

    def _thinking(self, call: ModelCall) -> Think | None:
        """Return the value of `think` for a request; None to omit it."""
        requested = read_think(call.request.body)
        think: Think | None = (
            requested if requested is not None else {"on": True, "off": False}.get(self._think, self._think)
        )
        name = add_tag(call.model.served or "")
        if name in self._without_reasoning:
            return None
        if think != "auto":
            return think
        _, description = self._descriptions.get(name, ("", ModelDescription()))
        return True if "thinking" in description.capabilities else None

    def _report_omitted(self, call: ModelCall) -> None:
        new = [field for field in find_omitted_fields(call.request.body) if field not in self._omitted]
        if new and len(self._omitted) < _REMEMBERED:
            self._omitted.update(new)
            self._observe(FieldsOmitted(tuple(new)))

    async def _check_truncation(self, call: ModelCall, encoded: Mapping[str, Json], read: int | None) -> None:
        """Raise `ContextOverflow` if Ollama truncated the prompt. If the response was streamed, only report it: the
        client has received it.
        """
        least = count_prompt_bytes(encoded) // _BYTES_PER_TOKEN
        if read is None or read >= least or await self._rejects_long_prompts():
            return
        window = self.options.num_ctx or await self._window(call.model.served)
        if window is not None and least <= window:
            return
        if call.request.stream:
            self._observe(PromptTruncated(call.model.served, read, least))
            return
        message = f"the prompt has at least {least} tokens, but the model server processed only {read} of them"
        raise ContextOverflow(self.url, 400, {"error": message}, tokens=least, window=window)

    async def _rejects_long_prompts(self) -> bool:
        """Return whether this version supports `truncate`, which every request sets to false."""
        try:
            return supports_truncate(await self._api.get("version"))
        except BackendFault:
            return True  # unknown; the response itself is valid

    async def _window(self, model: str | None) -> int | None:
        try:
            return next((loaded.window for loaded in await self.loaded() if loaded.name == add_tag(model or "")), None)
        except BackendFault:
            return None

    async def _describe(self, listed: Sequence[InstalledModel]) -> dict[str, ModelDescription]:
        """Return the description of each model. Requests those that are new or were pulled again."""
        new = [
            model
            for model in listed
            if self._descriptions.get(model.name, ("",))[0] != model.digest or not model.digest
        ]
        several = asyncio.Semaphore(_PARALLEL_REQUESTS)

        async def describe(model: InstalledModel) -> None:
            async with several:
                try:
                    description = decode_show(await self._api.post("show", {"model": model.name}))
                except BackendError:  # a damaged model must not hide the others
                    description = ModelDescription()
            self._descriptions[model.name] = model.digest, description
            self._without_reasoning.discard(model.name)

        await asyncio.gather(*map(describe, new))
        return {model.name: self._descriptions[model.name][1] for model in listed}

    def _end_at_limit(self, encoded: Mapping[str, Json], fault: BackendFault) -> Chunk:
        """Return the last chunk of a response whose call was cut off by the token limit. Raises any other fault."""
        options = encoded.get("options")
        limit = options.get("num_predict") if is_object(options) else None
        if isinstance(limit, int | float) and limit > 0 and isinstance(fault, BackendError) and is_cut_call(fault):
            return Chunk((Delta(finish="length"),))
        raise fault
