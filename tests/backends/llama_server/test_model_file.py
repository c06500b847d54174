"""The checks of a model file before a server starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_proxy.backends.llama_server.model_file import model_fault
from forge_proxy.backends.llama_server.programs import TINY_MODEL


def test_a_model_has_no_fault() -> None:
    assert model_fault(TINY_MODEL) is None


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (b"Roses are red", "is not a GGUF model: it begins with b'Rose'"),
        (b"GG", "is not a GGUF model"),
        (b"", "is empty"),
        (b"MZqFpD='\n", "is a program, not a model file; name a llamafile with --llama-server"),
    ],
)
def test_a_file_of_another_format_is_an_error(tmp_path: Path, holds: bytes, said: str) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(holds)

    assert f"{file} {said}" in (model_fault(file) or "")


def test_a_missing_file_a_folder_and_an_unreadable_file_are_errors(tmp_path: Path) -> None:
    assert model_fault(tmp_path / "m.gguf") == f"file not found: {tmp_path / 'm.gguf'}"
    assert model_fault(tmp_path) == f"{tmp_path} is a folder; name the model file in it"
    assert "cannot be read" in (model_fault(tmp_path / ("x" * 300)) or "")
