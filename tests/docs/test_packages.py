"""What is released: the wheel and the sdist hold what they should and nothing else, and the wheel runs by itself.

`python -m build` makes the wheel from the sdist, so the wheel shows that the sdist is complete.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from forge_proxy import __version__
from tests.docs.guides import ROOT, blocks
from tests.fakes.processes import Process, environment

_MODEL = "forge_proxy/backends/llama_server/models/tiny-tools-q8_0.gguf"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (file,) = built.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def sdist(built: Path) -> list[str]:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def tracked(*folders: str) -> set[str]:
    """The files under version control, and those that are about to be."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name for name in listed if (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert names == tracked("forge_proxy")
    assert {_MODEL, "forge_proxy/py.typed", "forge_proxy/backends/sampling.yaml"} <= names


def test_the_sdist_holds_source_documentation_and_examples_but_no_tests(sdist: list[str]) -> None:
    folders = ("forge_proxy", "config", "docs", "examples")
    files = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"}

    assert tracked(*folders) | files <= set(sdist)
    assert set(sdist) - tracked(*folders) - files <= {"PKG-INFO", ".gitignore", "zensical.toml"}


def test_the_metadata_name_license_and_keywords(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))

    assert (metadata["Name"], metadata["Version"]) == ("forge-proxy", __version__)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("MIT", "LICENSE")
    assert "Typing :: Typed" in (metadata.get_all("Classifier") or [])
    assert "tool-calling" in metadata["Keywords"]


def test_the_wheel_runs_by_itself(wheel: zipfile.ZipFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files alone, before this folder on the path: the daemon answers the first curl line of README."""
    wheel.extractall(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    words = [sys.executable, "-P", "-c", "import forge_proxy; print(forge_proxy.__file__)"]
    where = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout
    (curl,) = [block for block in blocks((ROOT / "README.md").read_text(), "sh") if block.startswith("curl ")]

    process = Process("forge_proxy", "serve", "--port", "0", "--backend", "embedded", safe_path=True)
    try:
        url = str(process.wait_for("listening")["url"]).removesuffix("/v1")
        process.wait_for("ready")
        line = ["sh", "-c", curl.replace("http://127.0.0.1:8081", url)]
        answered = subprocess.run(line, capture_output=True, timeout=60, check=True).stdout
    finally:
        process.stop()

    assert where.startswith(str(tmp_path))
    assert json.loads(answered)["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
