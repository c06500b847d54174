"""Models of one Ollama under configured names, each with its options. test_ollama.py tests the adapter itself."""

from __future__ import annotations

from forge_proxy.backends.ollama_catalog import OllamaCatalog, OllamaEntry
from forge_proxy.backends.ollama_window import OllamaWindow, OllamaWindows
from forge_proxy.core.chat import ModelCall, ResolvedModel
from forge_proxy.core.jsontypes import Json
from forge_proxy.engine.admission import Admission
from forge_proxy.engine.backend_switching import BackendSwitcher
from forge_proxy.wire.clients.chat_completions.request import decode_request
from tests.engine.test_admission import SetClock
from tests.fakes.ollama import FakeOllama

FAKE_ANSWERS = {
    "/api/tags": {"models": [{"name": "qwen3:8b", "digest": "1"}, {"name": "llama3:latest", "digest": "2"}]},
    "/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 8192}]},
    "show qwen3:8b": {},
    "show llama3:latest": {},
}


def catalog(fake: FakeOllama) -> dict[str, OllamaEntry]:
    return {
        "coder": OllamaEntry("qwen3:8b", fake.adapter(num_ctx=16384)),
        "chat": OllamaEntry("llama3", fake.adapter()),
        "absent": OllamaEntry("mistral", fake.adapter(num_ctx=2048)),
    }


async def test_a_request_uses_ollamas_name_and_the_entrys_options_and_the_response_the_clients_name() -> None:
    fake = FakeOllama()
    backend = OllamaCatalog(catalog(fake))
    messages: list[Json] = [{"role": "user", "content": "hi"}]

    for asked, name in (("gpt-4o", "coder"), ("chat", None)):
        request = decode_request({"model": asked, "messages": messages})
        chunks = [
            chunk
            async for chunk in backend.stream(ModelCall(request, stream=False, resolved=ResolvedModel(asked, name)))
        ]
        assert chunks[0].head["model"] == asked

    assert [(asked["model"], asked.get("options", {}).get("num_ctx")) for asked in fake.asked] == [
        ("qwen3:8b", 16384),
        ("llama3", None),
    ]


async def test_the_list_has_the_configured_names_with_the_window_of_each() -> None:
    backend = OllamaCatalog(catalog(FakeOllama(answers=FAKE_ANSWERS)))

    cards = await backend.models()

    assert [(card.id, card.window) for card in cards] == [("coder", 16384), ("chat", None), ("absent", 2048)]
    assert await backend.context_window("coder") == 16384
    assert await backend.context_window() is None


async def test_a_new_window_reloads_only_its_model() -> None:
    fake = FakeOllama(answers=FAKE_ANSWERS)
    entries = catalog(fake)
    admission = Admission(OllamaCatalog(entries), SetClock(), [].append)
    switching = BackendSwitcher(admission, lambda: None)
    windows = OllamaWindows(
        {name: OllamaWindow(entry.ollama, switching, 0, entry.model) for name, entry in entries.items()}
    )

    await windows.resize(4096, "coder")
    await windows.resize(1024, "chat")

    assert windows.served() == ("coder", "chat", "absent")
    assert [entry.ollama.options.num_ctx for entry in entries.values()] == [4096, 1024, 2048]
    assert [(asked["model"], asked["options"]) for asked in fake.asked] == [("qwen3:8b", {"num_ctx": 4096})]
