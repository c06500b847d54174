"""Where chat templates are read: files, llama-server, and Ollama, which renders its own."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.backends.chat_templates import GO_TEMPLATE
from forge_proxy.backends.chat_templates.files import TemplateFileError, read_template_file
from forge_proxy.backends.chat_templates.sandbox import compile_template
from forge_proxy.backends.chat_templates.server import ServerTemplates
from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.core.backend_errors import BackendUnreachable
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.rescue.templates import Conversation, LearnedTemplate
from forge_proxy.engine.process_pool import ProcessPool
from tests.fakes.ollama import DONE, FakeOllama, JsonDict

OWN = Path(__file__).parents[1] / "templates" / "own"
SOURCE = (OWN / "names-and-objects.jinja").read_text()


def text(value: str) -> bytes:
    """Encode a GGUF string."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(**entries: tuple[int, bytes]) -> bytes:
    """A GGUF file with these entries: type and value."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    return head + b"".join(
        text(key.replace("__", ".")) + struct.pack("<I", kind) + value for key, (kind, value) in entries.items()
    )


FILES = {
    "a template": SOURCE.encode(),
    "tokenizer_config.json": json.dumps({"a": 1, "chat_template": SOURCE}).encode(),
    "several templates": json.dumps(
        {"chat_template": [{"name": "default", "template": "x"}, {"name": "tool_use", "template": SOURCE}]}
    ).encode(),
    "a gguf": gguf(
        general__size=(4, struct.pack("<I", 7)),
        general__list=(9, struct.pack("<IQ", 8, 2) + text("a") + text("b")),
        general__numbers=(9, struct.pack("<IQ", 5, 3) + bytes(12)),
        general__name=(8, text("tokenizer.chat_template")),
        tokenizer__chat_template=(8, text(SOURCE)),
        general__flag=(7, b"\x01"),
    ),
    "a gguf with a template for tools": gguf(
        tokenizer__chat_template=(8, text("x")), tokenizer__chat_template__tool_use=(8, text(SOURCE))
    ),
}
NO_FILES = {
    "empty": b"",
    "a tokenizer_config.json without a template": b'{"a": 1}',
    "a gguf without a template": gguf(general__name=(8, text("x"))),
    "a damaged gguf": FILES["a gguf"][:60],
    "a gguf of another kind": gguf(general__name=(99, text("x"))),
    "a gguf that claims a huge string": gguf(tokenizer__chat_template=(8, struct.pack("<Q", 2**60))),
    "bytes": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_template_is_read_from_a_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    assert read_template_file(tmp_path / "file") == SOURCE


@pytest.mark.parametrize("content", NO_FILES.values(), ids=NO_FILES)
def test_a_file_without_a_template_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)

    with pytest.raises(TemplateFileError, match="file: "):
        read_template_file(tmp_path / "file")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TemplateFileError, match="No such file"):
        read_template_file(tmp_path / "none")


def test_the_template_of_the_test_model_is_read_from_its_file() -> None:
    assert "tool_call" in read_template_file(TINY_MODEL)


class Server:
    """A server with this template, which renders it if it is Jinja's or `renders`."""

    def __init__(self, template: str | None, renders: str | None = None, *, is_down: bool = False) -> None:
        self._template = template
        self._render = compile_template(renders) if renders else None
        self._is_down = is_down
        self.asked: list[JsonObject] = []

    async def read_template(self, model: str | None) -> str | None:
        if self._is_down:
            raise BackendUnreachable("http://server", "refused")
        return self._template

    async def render_template(self, model: str | None, body: JsonObject) -> str | None:
        self.asked.append(body)
        if self._is_down:
            raise BackendUnreachable("http://server", "refused")
        messages: Any = body["messages"]
        tools: Any = body["tools"]
        if messages[-1]["role"] == "assistant":  # llama-server would continue it, and refuses to if it has calls
            raise BackendUnreachable("http://server", "cannot continue an assistant message")
        return self._render(Conversation(tuple(messages), tuple(tools))) if self._render else None


async def learn(
    server: Server | None, file: Path | None = None, known: LearnedTemplate | None = None
) -> LearnedTemplate:
    """Return the template that is learned from a server."""
    pool = ProcessPool(seconds=30)
    try:
        return await ServerTemplates(server, pool, file).learn("m", known)
    finally:
        await pool.close()


async def test_a_template_on_the_server_is_learned_and_identified() -> None:
    learned = await learn(Server(SOURCE))

    assert learned.form is not None
    assert len(learned.digest) == 16
    assert await learn(Server(SOURCE), known=learned) is learned
    assert (await learn(Server(SOURCE + " "), known=learned)).digest != learned.digest


async def test_a_file_replaces_the_template_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text(SOURCE)

    learned = await learn(None, tmp_path / "t.jinja")

    assert learned.form is not None
    assert (await learn(Server(SOURCE), tmp_path / "none")).failure == "unavailable"


async def test_a_template_in_gos_syntax_is_learned_from_the_servers_rendering() -> None:
    server = Server(f"{GO_TEMPLATE}{{{{ .Prompt }}}}", renders=SOURCE)

    learned = await learn(server)

    assert learned.form is not None
    assert learned.form.shape == "named"


async def test_a_template_that_cannot_be_rendered_here_is_learned_from_the_servers_rendering() -> None:
    text_arguments = (OWN / "names-and-text.jinja").read_text()

    learned = await learn(Server("{{ unknown_helper() }}", renders=text_arguments))

    assert learned.form is not None


@pytest.mark.parametrize(
    ("server", "failure"),
    [
        (Server(None), "unavailable"),
        (Server("x", is_down=True), "unavailable"),
        (Server(GO_TEMPLATE), "no renderings"),
        (Server("{{ messages[0].content }}"), "no calls"),
    ],
)
async def test_a_template_that_is_not_understood_is_reported(server: Server, failure: str) -> None:
    learned = await learn(server)

    assert (learned.form, learned.failure) == (None, failure)


async def test_a_server_that_does_not_render_is_asked_once() -> None:
    server = Server(GO_TEMPLATE)

    await learn(server)

    assert len(server.asked) == 1


async def test_ollama_renders_with_the_options_of_its_requests_and_does_not_generate() -> None:
    def answer(asked: JsonDict) -> tuple[int, JsonDict]:
        return 200, {"_debug_info": {"rendered_template": "rendered"}} if asked.get("_debug_render_only") else DONE

    fake = FakeOllama(answer)
    ollama = fake.adapter(num_ctx=4096)

    rendered = await ollama.render_template("m", {"messages": [{"role": "user", "content": "hi"}], "tools": []})

    assert rendered == "rendered"
    assert fake.asked[0]["options"] == {"num_ctx": 4096, "num_predict": 1}
    assert (fake.asked[0]["model"], fake.asked[0]["stream"]) == ("m", False)


async def test_an_ollama_that_cannot_render_is_recognized() -> None:
    assert await FakeOllama().adapter().render_template("m", {"messages": [], "tools": []}) is None
