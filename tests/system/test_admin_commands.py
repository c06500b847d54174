"""The commands that inspect and change a running daemon, against a real one."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fakes.processes import Ended, Process, closed_port, command, daemon, until

ADMIN, USER = "sk-admin", "sk-user"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("settings") / "forge-proxy.yaml"
    tiers = "tiers: {reasoning: {temperature: 0.5, max_output: 512}}"
    file.write_text(f"server: {{api_keys: [{USER}], admin_keys: [{ADMIN}]}}\n{tiers}\n")
    return file


@pytest.fixture(scope="module")
def running(file: Path) -> Generator[Process]:
    with daemon("--backend", "embedded", "--config", str(file)) as process:
        yield process


def ask(running: Process, *words: str) -> Ended:
    return command(*words, env={"FORGE_PROXY_URL": running.url, "FORGE_PROXY_KEY": ADMIN})


def test_the_status_is_printed_as_text(running: Process) -> None:
    ended = ask(running, "status")

    told = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    assert ended.code == 0
    assert told["backend"].startswith("embedded at http://127.0.0.1:")
    assert told["budget"].startswith("backend: 2048 tokens")


def test_s_tiers_are_listed_with_what_they_resolve_to(running: Process) -> None:
    ended = ask(running, "tiers")

    listed = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    model = listed["forge-generation"].split(",")[0]
    assert listed == {
        "forge-reasoning": f"{model}, 2048 tokens, temperature 0.5, max_output 512",
        **{
            f"forge-{name}": f"{model}, 2048 tokens (not set)"
            for name in ("generation", "summarization", "classification")
        },
    }
    assert model != "forge-generation"


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("models",),
        ("tiers",),
        ("budget",),
        ("backend",),
        ("guardrails",),
        ("compaction",),
        ("reload",),
        ("budget", "set", "backend"),
    ],
)
def test_scripts_get_json(running: Process, words: tuple[str, ...]) -> None:
    ended = ask(running, *words, "--json")

    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)


@pytest.mark.parametrize("group", ["budget", "backend", "guardrails", "compaction"])
def test_the_show_subcommands_print_the_same_as_the_bare_commands(running: Process, group: str) -> None:
    named, bare = ask(running, group, "show", "--json"), ask(running, group, "--json")

    assert (named.code, json.loads(named.out).keys()) == (0, json.loads(bare.out).keys())


def test_a_budget_switch_reaches_clients_and_a_reload_reverts_it(running: Process) -> None:
    switched = ask(running, "budget", "set", "forge-fast")
    models = ask(running, "models")
    connected = command("connect", "opencode", "--url", running.url, "--key", USER)
    reloaded = ask(running, "reload")

    assert "1024" in switched.out
    assert models.out.startswith("tiny-tools  forge-fast: 1024 tokens")
    limit = json.loads(connected.out)["provider"]["forge"]["models"]["tiny-tools"]["limit"]
    assert limit == {"context": 1024, "output": 256}
    assert "applied        budget.mode" in reloaded.out


def test_guardrails_are_switched_by_name(running: Process) -> None:
    changed = ask(running, "guardrails", "set", "rescue=off", "max_retries=2", "--json")
    wrong = ask(running, "guardrails", "set", "rescu=off")
    misspelt = ask(running, "guardrails", "set", "enabled.rescue=of")
    ask(running, "guardrails", "set", "rescue=on", "max_retries=3")

    said = json.loads(changed.out)
    assert (said["enabled"]["rescue"], said["enabled"]["retry"], said["max_retries"]) == (False, True, 2)
    assert (wrong.code, wrong.err) == (1, "forge-proxy: rescu: no such field; did you mean enabled.rescue?\n")
    assert (misspelt.code, misspelt.err) == (1, "forge-proxy: enabled.rescue: expected true or false (on or off)\n")


def test_compaction_is_changed_and_previewed(running: Process, tmp_path: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    turn = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "x" * 2000}]
    recorded = tmp_path / "request.json"
    recorded.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}, *turn, *turn], "stream": True}))

    changed = ask(running, "compaction", "set", "keep_recent=1", "threshold=0.6", "--json")
    shown = ask(running, "compaction", "preview", str(recorded), "--budget", "4000")
    wrong = ask(running, "compaction", "preview", "-")
    ask(running, "compaction", "set", "keep_recent=2", "threshold=0.75")

    policy = {"strategy": "tiered", "keep_recent": 1, "threshold": 0.6}
    assert json.loads(changed.out)["policy"] == policy
    assert "budget is 4000" in shown.out
    assert "phase 1" in shown.out
    assert "message 2  tool_result truncated: an old result is cut to its beginning" in shown.out
    assert wrong.code != 0


@pytest.mark.parametrize(("tokens", "code"), [("255", 2), ("256", 0), ("16777216", 0), ("16777217", 2), ("much", 2)])
def test_the_budget_of_a_preview_has_the_bounds_of_the_setting(
    running: Process, tmp_path: Path, tokens: str, code: int
) -> None:
    recorded = tmp_path / "request.json"
    recorded.write_text(json.dumps([{"role": "user", "content": "hi"}]))

    ended = ask(running, "compaction", "preview", str(recorded), "--budget", tokens)

    assert ended.code == code
    assert (f"the budget is {tokens}" in ended.out) == (code == 0)
    assert ("--budget" in ended.err) == (code == 2)


def test_numbers_are_shown_as_numbers_and_switches_as_switches(running: Process) -> None:
    shown = dict(line.split(maxsplit=1) for line in ask(running, "guardrails").out.splitlines())

    assert (shown["enabled.rescue"], shown["max_text_nudges"]) == ("on", "1")


def test_a_managed_server_is_stopped_started_restarted_and_its_log_shown(running: Process) -> None:
    states = [json.loads(ask(running, "backend", verb, "--json").out) for verb in ("stop", "start", "restart")]
    log = ask(running, "backend", "logs", "-n", "3")
    same, other = ask(running, "backend", "model", "tiny-tools"), ask(running, "backend", "model", "other")

    assert [said["server"]["state"] for said in states] == ["stopped", "ready", "ready"]
    assert states[1]["server"]["pid"] != states[2]["server"]["pid"]
    assert len(log.out.splitlines()) == 3
    assert (same.code, other.code, other.err) == (0, 1, "forge-proxy: no model 'other'; available: tiny-tools\n")


@pytest.mark.parametrize("words", [("start",), ("stop",), ("restart",), ("model", "x"), ("logs",)])
def test_a_server_that_is_not_managed_is_reported(proxy: Process, words: tuple[str, ...]) -> None:
    ended = ask(proxy, "backend", *words)

    assert ended.code == 1
    assert ended.err.startswith("forge-proxy: this backend is not managed by forge-proxy: ")


def test_the_error_for_a_missing_key_names_where_to_set_it(running: Process) -> None:
    ended = command("status", "--url", running.url)

    assert ended.code == 1
    assert "server.admin_keys" in ended.err
    assert "--key or FORGE_PROXY_KEY" in ended.err


def test_the_error_without_a_daemon_names_what_to_do() -> None:
    with closed_port() as port:
        ended = command("status", "--url", f"http://127.0.0.1:{port}/v1")

    assert ended.code == 1
    assert ended.err.startswith(f"forge-proxy: no daemon responds at http://127.0.0.1:{port} (")
    assert "forge-proxy serve" in ended.err


def test_settings_are_read_again_on_sighup_and_a_mistake_changes_nothing(running: Process, file: Path) -> None:
    before = file.read_text()

    file.write_text(before + "guardrails: {max_retries: 1}\nlog: {level: debug}\n")
    running.send_signal(signal.SIGHUP)
    done = running.wait_for("reloaded")
    file.write_text(before + "guardrails: {max_retry: 1}\n")
    running.send_signal(signal.SIGHUP)
    refused = running.wait_for("not reloaded")
    now = json.loads(ask(running, "guardrails", "--json").out)
    file.write_text(before)

    assert (done["applied"], done["needs_restart"]) == (["guardrails.max_retries"], ["log.level"])
    assert "did you mean guardrails.max_retries?" in str(refused["error"])
    assert now["max_retries"] == 1


def test_a_sighup_before_the_daemon_listens_reloads_and_does_not_end_it(server: Process) -> None:
    starting = Process("forge_proxy", "serve", "--port", "0", "--backend-url", server.url)
    try:
        until(lambda: holds_back_sighup(starting.pid), "it has begun")
        starting.send_signal(signal.SIGHUP)

        starting.wait_for("listening")
        starting.wait_for("reloaded")
    finally:
        code = starting.stop()

    assert code == 0


def holds_back_sighup(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(blocked.split()[1], 16) & 1 << signal.SIGHUP - 1)


def test_settings_are_shown_without_secrets(running: Process, file: Path) -> None:
    local = command("config", "show", "--config", str(file), "--json")
    live = ask(running, "config", "show", "--live")

    assert json.loads(local.out)["server"]["api_keys"] == ["**********"]
    assert "host: 127.0.0.1" in live.out
    assert not any(key in local.out + live.out for key in (ADMIN, USER))


def test_settings_are_checked_and_described(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("budget: {mode: manual}\nlog: {level: loud}\n")

    checked, refused, schema = (
        command("config", "check"), command("config", "check", "--config", str(wrong)), command("config", "schema"),
    )  # fmt: skip

    assert (checked.code, refused.code) == (0, 2)
    assert len(refused.err.splitlines()) == 2
    assert "budget" in json.loads(schema.out)["properties"]


def test_connect_writes_the_file_of_a_client(running: Process, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    written = command("connect", "codex", "--write", "--url", running.url, "--key", USER, env=home)
    nothing = command("connect", "env", "--write", "--url", running.url, "--key", USER, env=home)
    unknown = command("connect", "openai", "--model", "other", "--url", running.url, "--key", USER, env=home)

    assert written.code == 0
    assert USER in (tmp_path / ".codex/config.toml").read_text()
    assert (nothing.code, unknown.code) == (1, 1)
    assert "serves: tiny-tools" in unknown.err
