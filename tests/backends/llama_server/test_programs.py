"""Which program serves a model file, and the reason that is reported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.llama_server.launch import ServerProgram
from forge_proxy.backends.llama_server.programs import TINY_MODEL, find_embedded, find_program, launch_spec

SAYS = "#!/bin/sh\necho {}\n"


def executable(path: Path, says: str = "") -> Path:
    path.write_text(SAYS.format(says))
    path.chmod(0o755)
    return path


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file in a folder; PATH is the folder `bin` beside it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    file = tmp_path / "models" / "qwen.gguf"
    file.write_bytes(b"GGUF")
    return file


def found(model: Path, **config: Any) -> tuple[ServerProgram, str]:
    return find_program(BackendConfig.model_validate({"gguf": model, **config}), model)


@pytest.mark.process
def test_one_on_path_is_taken_before_a_llamafile_beside_the_model_before_the_embedded_one(model: Path) -> None:
    nothing, why_embedded = found(model)
    beside = executable(model.with_name("llamafile-0.10"), "llamafile v0.10.1")
    a_llamafile, why_beside = found(model)
    on_path = executable(model.parents[1] / "bin" / "llama-server")
    a_server, why_on_path = found(model)

    assert (nothing.kind, why_embedded) == (
        "embedded",
        "a model file is configured, and llama-server is not on PATH",
    )
    assert a_llamafile == ServerProgram("llamafile", ("/bin/sh", str(beside)), (0, 10, 1))
    assert why_beside == f"a model file is configured, and a llamafile is beside it: {beside}"
    assert a_server == ServerProgram("llama-server", (str(on_path),))
    assert why_on_path == f"a model file is configured, and llama-server is on PATH: {on_path}"


@pytest.mark.process
def test_a_configured_program_or_kind_takes_precedence_over_a_detected_one(model: Path) -> None:
    executable(model.parents[1] / "bin" / "llama-server")
    executable(model.with_name("x.llamafile"), "llamafile v0.9.3")
    other = executable(model.with_name("my-server"))

    assert found(model, llama_server={"binary": other})[0] == ServerProgram("llama-server", (str(other),))
    assert found(model, kind="llamafile")[0].version == (0, 9, 3)
    assert found(model, kind="embedded") == (find_embedded(), "backend.kind is embedded")
    assert found(model, llama_server={"binary": "llama-server"})[0].command[0].endswith("bin/llama-server")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"llama_server": {"binary": "/nowhere/x"}}, "backend.llama_server.binary /nowhere/x is not there"),
        ({"kind": "llama-server"}, "no llama-server on PATH; name one with --llama-server"),
        ({"kind": "llamafile"}, "there is no llamafile beside"),
    ],
)
def test_a_missing_program_is_an_error(model: Path, config: dict[str, Any], said: str) -> None:
    with pytest.raises(BackendChoiceError, match=said):
        found(model, **config)


def test_a_program_that_is_not_executable_is_an_error(model: Path) -> None:
    with pytest.raises(BackendChoiceError, match="is not executable"):
        found(model, llama_server={"binary": model})


@pytest.mark.process
def test_a_llamafile_without_a_version_is_treated_as_current(model: Path) -> None:
    executable(model.with_name("x.llamafile"), "hello")

    assert found(model)[0].version == ()


def test_the_settings_are_converted_to_a_launch_specification(model: Path) -> None:
    said = {"context": 4096, "slots": 3, "cache_type_k": "q8_0", "extra": ["--temp", "0"], "port": 9000}
    config = BackendConfig.model_validate({"gguf": model, "llama_server": said})

    spec = launch_spec(config, ServerProgram("llama-server", ("x",)), model)

    assert (spec.model, spec.alias) == (model, "qwen")
    assert (spec.context, spec.slots, spec.cache_type_k, spec.extra, spec.port) == (
        4096,
        3,
        "q8_0",
        ("--temp", "0"),
        9000,
    )


def test_the_embedded_one_has_defaults_of_its_own_and_takes_no_extra_flags() -> None:
    plain = launch_spec(BackendConfig(), find_embedded(), TINY_MODEL)
    extra = BackendConfig.model_validate({"llama_server": {"extra": ["--temp", "0"]}})

    assert (plain.alias, plain.context, plain.slots, plain.threads) == ("tiny-tools", 2048, 2, 1)
    assert plain.program.command[0] == sys.executable
    with pytest.raises(BackendChoiceError, match="accepts no arguments"):
        launch_spec(extra, find_embedded(), TINY_MODEL)
