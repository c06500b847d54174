"""The self-test of the real tiny model: by `check`, and by a daemon that loads it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.fakes.processes import command, daemon

THREADS = {"FORGE_PROXY_BACKEND__LLAMA_SERVER__THREADS": "1"}


@pytest.mark.parametrize("asked", [["--self-test"], ["--model", "tiny-tools"]], ids=["asked for", "a model is named"])
def test_check_reports_the_abilities_of_the_model_and_stores_them(tmp_path: Path, asked: list[str]) -> None:
    env = {**THREADS, "XDG_STATE_HOME": str(tmp_path)}

    done = command("check", "--backend", "embedded", "--port", "0", *asked, env=env)

    assert done.code == 0, done.out + done.err
    rows = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert rows["self-test"].startswith("tiny-tools: valid call yes, tool_choice required yes")
    assert rows["self-test"].endswith("prefix cache yes")
    assert rows["tools"] == "native: it called a tool that was offered in the request"
    kept = json.loads((tmp_path / "forge-proxy" / "capabilities.json").read_bytes())
    assert [cards["tiny-tools"]["tools"] for cards in kept.values()] == ["native"]


def test_a_daemon_tests_the_model_that_it_loads_if_configured(tmp_path: Path) -> None:
    env = {**THREADS, "XDG_STATE_HOME": str(tmp_path), "FORGE_PROXY_BACKEND__SELF_TEST": "on-load"}
    with daemon("--backend", "embedded", env=env) as process:
        told = process.wait_for("self-test")
        shown = httpx.get(f"{process.url.removesuffix('/v1')}/admin/v1/models").json()["data"]

    assert (told["model"], told["tools"], told["calls"], told["prefix_cache"]) == ("tiny-tools", "native", True, True)
    (card,) = [model["capabilities"] for model in shown]
    assert card.items() <= told.items()


@pytest.mark.parametrize("written", ["off", "'off'"])
def test_yaml_off_disables_the_self_test(tmp_path: Path, written: str) -> None:
    file = tmp_path / "forge.yaml"
    file.write_text(f"backend:\n  kind: embedded\n  self_test: {written}\n")

    assert command("check", "--config", str(file), "--port", "0", env=THREADS).code == 0


def test_a_daemon_learns_the_chat_template_of_its_model_before_the_first_request(tmp_path: Path) -> None:
    with daemon("--backend", "embedded", env={**THREADS, "XDG_STATE_HOME": str(tmp_path)}) as process:
        learned = process.wait_for("chat template learned")

    assert learned["model"] == "tiny-tools"
