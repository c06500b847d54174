"""Learns a form from the chat template on a model server, in the process pool or by the server's own rendering."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from forge_proxy.backends.chat_templates import GO_TEMPLATE
from forge_proxy.backends.chat_templates.files import TemplateFileError, read_template_file
from forge_proxy.backends.chat_templates.learning import learn_template
from forge_proxy.core.backend_errors import BackendFault
from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.rescue.templates import LearnedTemplate, learn_form, list_conversations
from forge_proxy.core.rescue.templates.probes import Variant
from forge_proxy.engine.process_pool import ProcessPool

_UNRENDERED = ("no renderings", "took too long")
"""The failures after which the server's own rendering may still show the form."""
_MAX_FAULTS = 3
"""Failed renderings after which the server is not asked for more."""


@runtime_checkable
class TemplateServer(Protocol):
    """A model server that reports and renders its chat templates. Methods raise `BackendFault`."""

    async def read_template(self, model: str | None) -> str | None:
        """Return the chat template of a model; None if the server does not report it."""
        ...

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        """Return the prompt for these messages and tools; None if the server does not render without generating."""
        ...


class ServerTemplates:
    """`TemplateLearner` of one model server. `file` replaces the template that the server reports."""

    def __init__(self, server: TemplateServer | None, pool: ProcessPool, file: Path | None = None) -> None:
        self._server = server
        self._pool = pool
        self._file = file

    async def learn(self, model: str | None, known: LearnedTemplate | None) -> LearnedTemplate:
        """See `engine.ports.TemplateLearner`."""
        try:
            source = await self._read(model)
        except (BackendFault, TemplateFileError) as error:
            return LearnedTemplate(None, "unavailable", str(error))
        if not source:
            return LearnedTemplate(None, "unavailable")
        digest = hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:16]
        if known is not None and known.digest == digest:
            return known
        return replace(await self._learn(model, source), digest=digest)

    async def _read(self, model: str | None) -> str | None:
        if self._file is not None:
            return await asyncio.to_thread(read_template_file, self._file)
        return await self._server.read_template(model) if self._server else None

    async def _learn(self, model: str | None, source: str) -> LearnedTemplate:
        if source.startswith(GO_TEMPLATE):
            return await self._learn_from_server(model, Variant(answered=True))
        learned = await self._pool.run(partial(learn_template, source)) or LearnedTemplate(None, "took too long")
        if learned.failure not in _UNRENDERED or self._file is not None:
            return learned
        by_server = await self._learn_from_server(model, Variant("text", answered=True))
        return by_server if by_server.form else learned

    async def _learn_from_server(self, model: str | None, variant: Variant) -> LearnedTemplate:
        renderings: dict[str, str] = {}
        faults: list[str] = []
        for name, conversation in list_conversations(variant):
            body: dict[str, Json] = {"messages": [*conversation.messages], "tools": [*conversation.tools]}
            try:
                prompt = await self._server.render_template(model, body) if self._server else None
            except BackendFault as fault:
                faults.append(fault.summary)
                prompt = ""
            if prompt is None or len(faults) == _MAX_FAULTS:
                break
            if prompt:
                renderings[name] = prompt
        return learn_form(renderings) if not faults else replace(learn_form(renderings), detail=faults[0])
