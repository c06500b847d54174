"""`forge-proxy runs submit`: errors of unusable input, before any daemon is contacted."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from forge_proxy.cli.run_files import NotASubmission
from forge_proxy.cli.runs import runs
from forge_proxy.client.remote import AdminClient


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        ([], b'{"metadata": {"a": NaN}}', "stdin: not JSON: NaN is not JSON"),
        ([], b'{"user_message": "\\ud800"}', "stdin: not JSON: 'utf-8' codec can't encode character '\\ud800'"),
        ([], b"[" * 100_000, "stdin: not JSON: "),
        ([], b'{"a": 1', "stdin: not JSON: "),
        (["--idempotency-key", "\u00e9"], b"{}", "--idempotency-key: "),
        (["--idempotency-key", "a\nb"], b"{}", "--idempotency-key: "),
        (["--idempotency-key", ""], b"{}", "--idempotency-key: "),
    ],
)
def test_an_unusable_submission_is_an_error_with_its_name(words: list[str], stdin: bytes, said: str) -> None:
    came = CliRunner().invoke(runs, ["submit", "-", "--url", "http://127.0.0.1:9", *words], input=stdin)

    assert isinstance(came.exception, NotASubmission), came.exception
    assert str(came.exception).startswith(said)


def test_the_former_name_of_the_idempotency_key_works_with_a_warning() -> None:
    result = CliRunner().invoke(runs, ["submit", "-", "--url", "http://127.0.0.1:9", "--once", "\u00e9"], input=b"{}")

    assert str(result.exception).startswith("--idempotency-key: expected up to 200 characters")
    assert result.stderr == "forge-proxy: --once is now --idempotency-key; the old name ends with 0.3\n"


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        ([], b"", "name at least one output, as CALL=VALUE or with --file; 'runs show ID' lists the calls"),
        (["call_1"], b"", "call_1: expected CALL=VALUE"),
        (["=x"], b"", "=x: expected CALL=VALUE"),
        (["--error", "call_1"], b"", "call_1: expected CALL=VALUE"),
        (["--file", "-"], b"{", "stdin: not JSON: "),
        (["--file", "-"], b'{"output": []}', 'stdin: expected {"outputs": [{"tool_call_id"'),
    ],
)
def test_unusable_outputs_are_an_error_with_their_name(words: list[str], stdin: bytes, said: str) -> None:
    came = CliRunner().invoke(runs, ["outputs", "run_1", "--url", "http://127.0.0.1:9", *words], input=stdin)

    assert isinstance(came.exception, NotASubmission), came.exception
    assert str(came.exception).startswith(said)


@pytest.mark.parametrize(
    ("words", "hint"), [([], "no runs\n"), (["--status", "failed"], "no runs with status failed\n")]
)
def test_an_empty_list_is_reported_as_empty(words: list[str], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_runs(*_: object, **__: object) -> dict[str, list[object]]:
        return {"data": []}

    monkeypatch.setattr(AdminClient, "admin", no_runs)

    came = CliRunner().invoke(runs, ["list", "--url", "http://127.0.0.1:9", *words])

    assert (came.exit_code, came.stdout, came.stderr) == (0, "", hint), repr(came.exception)
