"""A reader that keeps why it stopped must not stay in memory because of that: it holds the response."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Generator
from typing import TypeAlias

import pytest

from forge_proxy.wire.backends.anthropic.stream import MessageReader
from forge_proxy.wire.backends.anthropic.tools import ToolNames
from forge_proxy.wire.backends.ollama.stream import OllamaStreamReader
from forge_proxy.wire.backends.openai.stream import ChatStreamReader

Reader: TypeAlias = ChatStreamReader | MessageReader | OllamaStreamReader
READERS: list[Callable[[], Reader]] = [
    lambda: ChatStreamReader(limit=1000),
    lambda: MessageReader(ToolNames(()), limit=1000),
    lambda: OllamaStreamReader(limit=1000),
]
UNREADABLE = [
    b"data: {not JSON\n\n", b"{not JSON\n", b'data: {"error": "no"}\n\n', b'{"error": "no"}\n', b"data: " + b"x" * 2000,
    b"{" + b"x" * 2000,
]  # fmt: skip


@pytest.fixture
def _no_collection() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize("body", UNREADABLE)
@pytest.mark.parametrize("new_reader", READERS, ids=["openai", "anthropic", "ollama"])
def test_a_reader_is_freed_without_garbage_collection(new_reader: Callable[[], Reader], body: bytes) -> None:
    reader = new_reader()
    reader.feed(body)
    reader.end()
    assert reader.fault is not None
    freed = weakref.ref(reader)

    del reader

    assert freed() is None
