"""The models that the settings list: what is refused, what is taken from the backend's settings, what is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from forge_proxy.backends.catalog import ModelEntries, ModelEntry, catalog_of, launch_specs
from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.llama_server.launch import ServerProgram
from forge_proxy.backends.selection import select_backend
from tests.fakes.ollama import FakeOllama

READER: TypeAdapter[dict[str, ModelEntry]] = TypeAdapter(ModelEntries)
SERVER = ServerProgram("llama-server", ("llama-server",))


def models(**entries: Any) -> dict[str, ModelEntry]:
    return READER.validate_python(entries)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"a": {}}, "expected either gguf (a model file) or ollama (the name of a model)"),
        (
            {"a": {"gguf": "a.gguf", "ollama": "a"}},
            "expected either gguf (a model file) or ollama (the name of a model)",
        ),
        ({"a": {"gguf": "a.gguf"}, "b": {"ollama": "b"}}, "either all models have a gguf or all have an ollama"),
        ({"a": {"ollama": "a", "slots": 2}}, "slots is only for a gguf"),
        ({"a": {"ollama": "a", "extra": ["--mlock"]}}, "extra is only for a gguf"),
        ({"a": {"gguf": "a", "extra": ["-c", "1"]}}, "-c is set by forge-proxy"),
        (
            {"a": {"ollama": "a"}, "b": {"ollama": "b", "aliases": ["a"]}},
            "the alias 'a' of b is already a model's name",
        ),
        (
            {"a": {"ollama": "a", "aliases": ["x"]}, "b": {"ollama": "b", "aliases": ["x"]}},
            "the alias 'x' of b is already an alias of a",
        ),
        ({"": {"ollama": "a"}}, "a model needs a name"),
        ({"a": {"ollama": "a", "sampling": {"heat": 1}}}, "'temperature', 'top_p'"),
    ],
)
def test_contradictory_entries_are_errors(entries: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        models(**entries)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("backend", "entry", "said"),
    [
        ({"gguf": "b.gguf"}, {"gguf": "GOOD"}, "backend.gguf (--gguf) and models exclude each other"),
        ({"url": "http://127.0.0.1:1"}, {"gguf": "GOOD"}, "backend.url names a running server"),
        ({"kind": "ollama"}, {"gguf": "GOOD"}, "models with a gguf are for a server that forge-proxy starts"),
        ({"kind": "embedded"}, {"ollama": "qwen3"}, "models of an Ollama are not for the backend embedded"),
        ({}, {"gguf": "missing.gguf"}, "models.a.gguf: "),
        ({"model": "other"}, {"gguf": "GOOD"}, "backend.model 'other' is not a configured model; available: a"),
    ],
)
async def test_models_that_do_not_go_with_the_backend_are_refused(
    tmp_path: Path, backend: dict[str, Any], entry: dict[str, Any], said: str
) -> None:
    good = tmp_path / "a.gguf"
    good.write_bytes(b"GGUF and nothing else")
    entry = {key: str(good) if value == "GOOD" else value for key, value in entry.items()}

    with pytest.raises(BackendChoiceError) as caught:
        await select_backend(BackendConfig(**backend), FakeOllama(), models(a=entry))

    assert str(caught.value).startswith(said)


def test_omitted_fields_of_an_entry_have_the_backends_values_and_flags_are_added() -> None:
    config = BackendConfig.model_validate({"llama_server": {"context": 4096, "slots": 2, "extra": ["--mlock"]}})
    listed = models(a={"gguf": "/x/one.gguf"}, b={"gguf": "/x/two.gguf", "context": 1024, "extra": ["--no-mmap"]})

    specs = launch_specs(config, SERVER, listed)

    assert [(name, spec.alias, spec.model.name) for name, spec in specs.items()] == [
        ("a", "a", "one.gguf"),
        ("b", "b", "two.gguf"),
    ]
    assert [(spec.context, spec.slots, spec.extra) for spec in specs.values()] == [
        (4096, 2, ("--mlock",)),
        (1024, 2, ("--mlock", "--no-mmap")),
    ]


def test_a_default_may_be_an_alias_and_without_models_there_is_no_catalog() -> None:
    catalog = catalog_of(models(a={"ollama": "a"}, b={"ollama": "b", "aliases": ["best"]}), "best")

    assert catalog is not None
    assert (catalog.first, catalog.find("unknown"), catalog.find("a")) == ("b", "b", "a")
    assert catalog_of({}, "anything") is None


async def test_models_of_an_ollama_choose_it_at_its_usual_address() -> None:
    choice = await select_backend(BackendConfig(), FakeOllama(), models(a={"ollama": "qwen3"}))

    assert (choice.kind, choice.url) == ("ollama", "http://127.0.0.1:11434")
