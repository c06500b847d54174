"""Each command in an interpreter of its own, as users start it, and forked, as the other tests do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.processes import Process, command, command_in_new_interpreter

TOOLS = '[{"name": "get_weather", "parameters": {"type": "object"}}]'
# The demo takes long; test_settings.py runs it.
COMMANDS = (
    (["serve", "--port", "70000"], 2),
    (["stop"], 1),
    (["status"], 0),
    (["models"], 0),
    (["reload"], 0),
    (["connect", "opencode"], 0),
    (["check", "--port", "0"], 0),
    (["rescue", "--tools", "tools.json", "said.txt"], 0),
    (["version"], 0),
    (["budget"], 0),
    (["backend"], 0),
    (["guardrails"], 0),
    (["compaction"], 0),
    (["config", "show"], 0),
    (["runs", "list"], 1),
    (["eval", "list"], 0),
)


@pytest.mark.parametrize(("words", "code"), COMMANDS, ids=[words[0] for words, _ in COMMANDS])
def test_a_command_is_the_same_in_an_interpreter_of_its_own_and_forked(
    words: list[str], code: int, server: Process, proxy: Process, tmp_path: Path
) -> None:
    (tmp_path / "tools.json").write_text(TOOLS)
    (tmp_path / "said.txt").write_text('<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>')
    env = {"FORGE_PROXY_URL": proxy.url, "XDG_STATE_HOME": str(tmp_path), "FORGE_PROXY_BACKEND__URL": server.url}

    own = command_in_new_interpreter(*words, env=env, cwd=tmp_path)
    forked = command(*words, env=env, cwd=tmp_path)

    assert (own.code, forked.code) == (code, code)
    assert own.err == forked.err
    assert len(own.out.splitlines()) == len(forked.out.splitlines())
    assert own.out or own.err
    assert "Traceback" not in own.err + forked.err
