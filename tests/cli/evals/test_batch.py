"""The models that the names of a batch select."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_proxy.backends.llama_server.programs import TINY_MODEL
from forge_proxy.cli.evals.batch import CLAUDE, find_models, read_batch
from forge_proxy.cli.evals.run import build_plan
from forge_proxy.cli.evals.run_all import EvaluatedModel, configuration
from forge_proxy.cli.evals.session import EvalSession
from forge_proxy.evals.record import EvalConfiguration
from forge_proxy.settings import SettingsError, load


def models(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_bytes(TINY_MODEL.read_bytes()[:64])
    return folder


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("llamaserver", ["native", "prompt"]),
        ("llamaserver-native", ["native"]),
        ("llamaserver-prompt", ["prompt"]),
        ("llamafile", ["native"]),
    ],
)
def test_each_model_file_is_evaluated_in_each_tool_mode(name: str, ways: list[str], tmp_path: Path) -> None:
    folder = models(
        tmp_path, "b.gguf", "a.gguf", "mmproj-a.gguf", "c-00001-of-00002.gguf", "c-00002-of-00002.gguf", "notes.txt"
    )

    found = [model.settings.backend for model in find_models([name], {}, folder)]

    expected = [(file, way) for file in ("a.gguf", "b.gguf", "c-00001-of-00002.gguf") for way in ways]
    assert [(backend.gguf.name if backend.gguf else "", backend.tools) for backend in found] == expected
    assert {backend.kind for backend in found} == {"llamafile" if name == "llamafile" else None}


def test_anthropic_models_are_evaluated_with_and_without_required_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PROXY_BACKEND__API_KEY", "sk-ant-1")

    found = find_models(["anthropic", "haiku", "opus-any"], {}, None)

    told = [(one.settings.backend.model, one.any_tool) for one in found]
    assert told == [*((model, False) for model in CLAUDE.values()), (CLAUDE["opus"], True)]  # haiku is among them
    assert {one.settings.backend.kind for one in found} == {"anthropic"}


def test_named_configurations_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "evals.yaml"
    file.write_text(
        "evals:\n"
        "  mine:\n"
        "    backend: {kind: openai, url: 'http://127.0.0.1:9', model: qwen, tools: prompt}\n"
        "    think: false\n"
        "    tool_choice: any\n"
    )

    (model,) = find_models(["mine"], read_batch(file), None)

    backend = model.settings.backend
    assert (backend.kind, backend.model, backend.tools, model.any_tool) == ("openai", "qwen", "prompt", True)
    assert (model.think, backend.llama_cpp.think, backend.ollama.think) == (False, "off", "off")


@pytest.mark.parametrize(
    ("written", "names", "told"),
    [
        ("evals: {mine: {backend: {knid: openai}}}", ["mine"], r"evals\.mine: backend\.knid: no such setting"),
        ("evals: {mine: {bakend: {}}}", ["mine"], r"evals\.mine\.backend: required, but missing"),
        ("evals: {}", ["his"], "no configuration 'his'; available: all, ollama"),
        (
            "evals: {}",
            ["llamaserver"],
            "llamaserver is for model files; set their folder",
        ),
        ("evals: {}", ["sonnet"], "Anthropic's models need FORGE_PROXY_BACKEND__API_KEY"),
        ("evals: [", ["mine"], "not YAML"),
    ],
)
def test_unusable_configurations_are_errors(written: str, names: list[str], told: str, tmp_path: Path) -> None:
    file = tmp_path / "evals.yaml"
    file.write_text(written)

    with pytest.raises(SettingsError, match=told):
        find_models(names, read_batch(file), None)


def test_a_folder_without_models_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the folder has no \.gguf file"):
        find_models(["llamaserver"], {}, tmp_path)


def test_the_configured_context_is_part_of_the_configuration() -> None:
    session = EvalSession("embedded", "tiny", 1, 512, "as said", {})
    plan = build_plan(None, None, None, None, runs=1)

    def asked(size: int) -> EvalConfiguration:
        backend = {"kind": "embedded", "llama_server": {"context": size}}
        return configuration(session, EvaluatedModel(load(None, {"backend": backend})), plan)

    small, large = asked(512), asked(2048)

    assert (small.context, large.context) == (512, 2048)
    assert small.key != large.key
    assert small.model_copy(update={"context": None}).key == EvalConfiguration(model="tiny", backend="embedded").key


def test_two_model_files_of_the_same_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "q4").mkdir()
    folder = models(tmp_path, "a.gguf", "q4/a.gguf", "b.gguf")

    with pytest.raises(SettingsError, match=r"a\.gguf and .*a\.gguf have the same name"):
        find_models(["llamaserver"], {}, folder)
