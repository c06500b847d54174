"""docs/batches.md: its commands print what it says, its example runs, and it names every status and fault."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import shlex
from collections.abc import Generator
from pathlib import Path
from typing import get_args

import pytest

from forge_proxy.core.batches import lines
from forge_proxy.core.batches.limits import MAX_CUSTOM_ID, MAX_ERRORS, MAX_LINES
from forge_proxy.core.batches.progress import BatchStatus
from forge_proxy.settings import Settings
from tests.docs.guides import GUIDES, ROOT, blocks, printed_by
from tests.fakes.processes import Process, command, daemon

PAGE = (GUIDES / "batches.md").read_text()
_TEXT = re.sub(r"^```.*?^```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
NAMED = set(re.findall(r"`([^`]+)`", _TEXT))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Generator[Process]:
    store = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/runs.db"
    with daemon("--backend", "embedded", env={"FORGE_PROXY_STORE__URL": store}) as proxy:
        yield proxy


def test_the_commands_print_what_the_page_says(proxy: Process, tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "")
    for part in block.split("$ ")[1:]:
        words, *expected = part.splitlines()
        out = str(tmp_path / "weather.jsonl")
        ran = command(*shlex.split(words.replace("weather.jsonl", out))[1:], env={"FORGE_PROXY_URL": proxy.url})
        printed = (ran.out + ran.err).replace(out, "weather.jsonl")

        assert ran.code == 0, printed
        for line in expected:
            pattern = ".*".join(re.escape(piece) for piece in line.split("…"))
            assert re.search(f"^{pattern}$", printed, re.MULTILINE), (line, printed)
    again = command(
        "batches", "run", str(ROOT / "config/examples/weather-batch.jsonl"), "--out", str(tmp_path / "again.jsonl"),
        env={"FORGE_PROXY_URL": proxy.url},
    )  # fmt: skip
    assert "resumed batch_" in again.err
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "weather.jsonl").read_text()


def test_the_python_example_prints_what_it_says(proxy: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = blocks(PAGE, "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example.replace("http://127.0.0.1:8081", proxy.url), {"__name__": "batches.md"})  # that is the test
    assert printed.getvalue() == printed_by(example)


def test_every_status_and_every_fault_is_named() -> None:
    codes = set(re.findall(r'(?:_fault|LineFault)\(\s*"(\w+)"', inspect.getsource(lines)))
    assert {*get_args(BatchStatus), *codes} <= NAMED
    assert len(codes) > 8


def test_the_limits_are_those_of_the_code() -> None:
    settings = Settings()
    for text in (f"{MAX_LINES:,} lines", f"1 to {MAX_CUSTOM_ID} characters", f"the first {MAX_ERRORS}"):
        assert text in " ".join(PAGE.split())
    assert f"`batches.max_attempts` ({settings.batches.max_attempts})" in PAGE
    assert f"`files.max_mb` ({settings.files.max_mb})" in PAGE
