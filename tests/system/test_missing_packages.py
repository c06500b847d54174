"""An optional package that is not installed: an exit code, and one line that names what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.processes import ROOT, Ended, command

_SITECUSTOMIZE = """
import os, sys
from importlib.machinery import PathFinder

class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name == os.environ["NOT_INSTALLED"] else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = _Finder
"""
MODEL = ROOT / "forge_proxy/backends/llama_server/models/tiny-tools-q8_0.gguf"
NO_WHEEL = (
    "the embedded llama.cpp is not installed: pip install 'forge-proxy[embedded]', put llama-server on PATH, "
    "or name one with --llama-server"
)
NO_DRIVER = "store.url: PostgreSQL needs a driver: pip install 'forge-proxy[postgres]'"


def without(package: str, folder: Path, *words: str, **settings: str) -> Ended:
    """The command in a Python that does not find this package, and without a llama-server on PATH."""
    (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
    env = {f"FORGE_PROXY_{name}": value for name, value in settings.items()}
    return command(*words, env={"PYTHONPATH": str(folder), "NOT_INSTALLED": package, "PATH": "/usr/bin:/bin", **env})


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("config", "check")])
@pytest.mark.parametrize("settings", [{"BACKEND__KIND": "embedded"}, {"BACKEND__GGUF": str(MODEL)}])
def test_without_the_embedded_wheel(tmp_path: Path, words: tuple[str, ...], settings: dict[str, str]) -> None:
    ended = without("xllamacpp", tmp_path, *words, **settings)

    assert (ended.code, ended.err) == (2, f"forge-proxy: {NO_WHEEL}\n")


def test_the_demo_without_the_embedded_wheel(tmp_path: Path) -> None:
    ended = without("xllamacpp", tmp_path, "demo")

    assert (ended.code, ended.err) == (2, f"forge-proxy: {NO_WHEEL}\n")


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("config", "check")])
def test_postgresql_without_its_driver(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = without("asyncpg", tmp_path, *words, STORE__URL="postgresql+asyncpg://user@127.0.0.1/runs")

    assert (ended.code, ended.err) == (2, f"forge-proxy: {NO_DRIVER}\n")


@pytest.mark.parametrize(
    ("package", "settings", "said"),
    [
        ("xllamacpp", {"BACKEND__KIND": "embedded"}, NO_WHEEL),
        ("asyncpg", {"STORE__URL": "postgresql+asyncpg://user@127.0.0.1/runs"}, NO_DRIVER),
    ],
)
def test_check_reports_it_as_well(tmp_path: Path, package: str, settings: dict[str, str], said: str) -> None:
    ended = without(package, tmp_path, "check", "--port", "0", **settings)

    assert (ended.code, ended.err) == (1, "")
    assert said in ended.out
    assert "not ready" in ended.out
