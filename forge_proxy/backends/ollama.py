"""Ollama, by its own `/api`: there a window can be asked for, a prompt refused in place of cut, and thinking chosen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from forge_proxy.backends.config import OllamaConfig
from forge_proxy.backends.exchange import OK, write_call
from forge_proxy.backends.http import HttpClient
from forge_proxy.backends.ollama_api import OllamaApi
from forge_proxy.core.chat import ModelCall, ModelCard, window_of
from forge_proxy.core.errors import (
    BackendBroke,
    BackendError,
    BackendFault,
    ContextOverflow,
    ThinkingNotSupportedError,
)
from forge_proxy.core.health import Health
from forge_proxy.core.jsontypes import Json, is_object
from forge_proxy.core.stream import Chunk, Delta
from forge_proxy.engine.events import FieldsOmitted, PromptTruncated
from forge_proxy.engine.ports import Observer
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
    encode_unloading,
)
from forge_proxy.wire.backends.ollama.stream import OllamaStreamReader
from forge_proxy.wire.backends.openai.reasoning import Think, read_think
from forge_proxy.wire.sse import MAX_RESPONSE

_SHOWN_AT_ONCE = 8
_REMEMBERED = 256
_BYTES_PER_TOKEN = 6
"""More than any prose, code or markup has on average, so that a prompt has at least a token for so many."""


class Ollama:
    """The adapter. `terms` may be replaced: requests that come later go by the new ones."""

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
        self.terms = OllamaRequestOptions(config.num_ctx, config.keep_alive)
        self._think = config.think
        self._observe = observe
        self._shown: dict[str, tuple[str, ModelDescription]] = {}
        """By name: the digest of the model that was looked at, and what it is."""
        self._thoughtless: set[str] = set()
        """Models that refused to think, by name."""
        self._left_out: set[str] = set()

    async def stream(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """See `engine.ports.Backend`. Every answer is streamed by the server, so a caller who leaves stops it."""
        think = self._thinking(call)
        try:
            async with aclosing(self._ask(call, think)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ThinkingNotSupportedError:  # an answer to the request itself, so nothing has been given out
            if self._think != "auto" and read_think(call.request.body) is None:
                raise
            self._thoughtless.add(add_tag(_model(call) or ""))
        else:
            return
        async with aclosing(self._ask(call, None)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def models(self) -> Sequence[ModelCard]:
        """See `engine.ports.Backend`."""
        listed = decode_tags(await self._api.get("tags"))
        loaded = {model.name: model for model in await self.loaded()}
        shown = await self._look_at(listed)
        return [to_card(model, shown[model.name], loaded.get(model.name), self.terms.num_ctx) for model in listed]

    async def loaded(self) -> Sequence[LoadedModel]:
        """The models that are in memory. Raises like `stream`."""
        return decode_loaded(await self._api.get("ps"))

    async def load(self, model: str) -> None:
        """Load a model, and wait for it. Raises like `stream`."""
        await self._api.post("chat", encode_loading(model, self.terms), seconds=None)

    async def unload(self, model: str) -> None:
        """Take a model out of memory; answers it is giving go on to their end. Raises like `stream`."""
        await self._api.post("chat", encode_unloading(model))

    async def slots(self) -> int | None:
        """See `engine.ports.Backend`. It tells none."""
        return None

    async def context_window(self, model: str | None = None) -> int | None:
        """See `engine.ports.Backend`. Not known before a model is loaded, where nothing asks for one."""
        return window_of(await self.models(), None if model is None else add_tag(model))

    async def count_tokens(self, call: ModelCall) -> int | None:
        """See `engine.ports.Backend`. It counts only what it answers."""
        return None

    async def health(self) -> Health:
        """See `engine.ports.Backend`. Asks for the version, which wakes no model."""
        try:
            await self._api.get("version")
        except BackendError as error:
            return Health("loading" if error.status == 503 else "down", error.words)
        except BackendFault as fault:
            return Health("down", str(fault))
        return Health("ok")

    async def _ask(self, call: ModelCall, think: Think | None) -> AsyncGenerator[Chunk]:
        encoded = encode_call(call, self.terms, think)
        body = await write_call(call, encoded)
        self._tell_left_out(call)
        renamed = call.request.model if call.model is not None else None
        reader = OllamaStreamReader(renamed, limit=self._api.max_response, buffered=call.buffered)
        async with self._api.chat(body) as response:
            if response.status != OK:
                yield self._cut(encoded, await self._api.error(response))
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
                yield self._cut(encoded, self._api.fault(reader.fault))
                return
            if not reader.is_done:
                raise BackendBroke(self.url, "the stream ended without its last line")
            await response.finish()
        await self._refuse_cut(call, encoded, reader.prompt_tokens)

    def _thinking(self, call: ModelCall) -> Think | None:
        """What this request says of thinking; None to say nothing."""
        said = read_think(call.request.body)
        think: Think | None = said if said is not None else {"on": True, "off": False}.get(self._think, self._think)
        name = add_tag(_model(call) or "")
        if name in self._thoughtless:
            return None
        if think != "auto":
            return think
        _, shown = self._shown.get(name, ("", ModelDescription()))
        return True if "thinking" in shown.capabilities else None

    def _tell_left_out(self, call: ModelCall) -> None:
        new = [field for field in find_omitted_fields(call.request.body) if field not in self._left_out]
        if new and len(self._left_out) < _REMEMBERED:
            self._left_out.update(new)
            self._observe(FieldsOmitted(tuple(new)))

    async def _refuse_cut(self, call: ModelCall, encoded: Mapping[str, Json], read: int | None) -> None:
        """Raise `ContextOverflow` where the prompt was cut. Once it has left, an answer is not taken back for that:
        then it is only told.
        """
        least = count_prompt_bytes(encoded) // _BYTES_PER_TOKEN
        if read is None or read >= least or await self._refuses():
            return
        window = self.terms.num_ctx or await self._window(_model(call))
        if window is not None and least <= window:
            return
        if call.request.stream:
            self._observe(PromptTruncated(_model(call), read, least))
            return
        words = f"the prompt has {least} tokens or more, and the model server read only {read} of them"
        raise ContextOverflow(self.url, 400, {"error": words}, tokens=least, window=window)

    async def _refuses(self) -> bool:
        """Whether this version refuses what does not fit, as every request asks it to."""
        try:
            return supports_truncate(await self._api.get("version"))
        except BackendFault:
            return True  # nothing is known, and the answer is there

    async def _window(self, model: str | None) -> int | None:
        try:
            return next((loaded.window for loaded in await self.loaded() if loaded.name == add_tag(model or "")), None)
        except BackendFault:
            return None

    async def _look_at(self, listed: Sequence[InstalledModel]) -> dict[str, ModelDescription]:
        """What each of these models is; those not looked at yet, or pulled anew, are looked at."""
        new = [model for model in listed if self._shown.get(model.name, ("",))[0] != model.digest or not model.digest]
        several = asyncio.Semaphore(_SHOWN_AT_ONCE)

        async def look_at(model: InstalledModel) -> None:
            async with several:
                try:
                    shown = decode_show(await self._api.post("show", {"model": model.name}))
                except BackendError:  # one that is damaged shall not hide the others
                    shown = ModelDescription()
            self._shown[model.name] = model.digest, shown
            self._thoughtless.discard(model.name)

        await asyncio.gather(*map(look_at, new))
        return {model.name: self._shown[model.name][1] for model in listed}

    def _cut(self, encoded: Mapping[str, Json], fault: BackendFault) -> Chunk:
        """The end of an answer that was cut off at its limit inside a call. Raises every other fault."""
        options = encoded.get("options")
        limit = options.get("num_predict") if is_object(options) else None
        if isinstance(limit, int | float) and limit > 0 and isinstance(fault, BackendError) and is_cut_call(fault):
            return Chunk((Delta(finish="length"),))
        raise fault


def _model(call: ModelCall) -> str | None:
    return call.model or call.request.model
