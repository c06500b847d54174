"""Formats stored requests and the ledger as text for people. Pure, except for the time zone."""

from __future__ import annotations

from typing import Any

from forge_proxy.cli.run_rows import describe_time

_HEAD = ("model", "tool", "fault", "calls", "share (95 %)", "repaired", "retried", "failed", "tokens", "seconds")


def request_line(request: dict[str, Any]) -> str:
    """Return a request in a list, on one line."""
    who = " ".join(filter(None, (request["client"], request["program"])))
    parts = [
        describe_time(request["ended_at"]),
        f"{request['result']:<11}",
        f"{request['seconds']:.2f} s",
        request["served"] or request["model"] or "-",
        request["surface"],
        who,
        ", ".join(request["faults"]),
        request["error"],
    ]
    return "  ".join(filter(None, parts))


def request_rows(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of `/admin/v1/requests/{id}`."""
    tokens = request["tokens"]
    counts = ", ".join(f"{name} {count}" for name, count in tokens.items() if count is not None)
    first = request["first_output"]
    times = (
        f"{request['seconds']:.3f} s, queued {request['queued']:.3f} s, own {1e3 * request['overhead_seconds']:.1f} ms"
    )
    rows = [
        ("number", str(request["number"])),
        ("id", request["request_id"]),
        ("ended", describe_time(request["ended_at"])),
        ("result", request["result"]),
        ("surface", request["surface"]),
        ("client", " ".join(filter(None, (request["client"], request["program"]))) or "unknown"),
        (
            "model",
            " ".join(filter(None, (request["served"] or request["model"], request["quantization"]))) or "unknown",
        ),
        ("times", times + ("" if first is None else f", first output after {first:.3f} s")),
        ("tokens", (counts or "not reported") + (f", on retries {request['retry_tokens']}" if counts else "")),
    ]
    rows += [(f"attempt {attempt['number']}", _describe_attempt(attempt)) for attempt in request["all_attempts"]]
    rows += [("call", f"{call['tool']} ({call['outcome']})") for call in request["calls"]]
    rows += [("intervention", text) for text in request["interventions"]]
    if content := request["content"]:
        for attempt in content["attempts"]:
            rows += [(f"attempt {attempt['number']} wrote", text) for text in map(_describe_reply, attempt["replies"])]
        rows += [("client received", text) for text in map(_describe_reply, content["received"])]
    return [*rows, ("error", request["error"])] if request["error"] else rows


def answer_rows(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of one side of `/admin/v1/requests/{id}/replay`."""
    rows = [
        ("id", answer["request_id"]),
        ("model", answer["model"] or "unknown"),
        ("result", answer["result"]),
        ("total", f"{answer['seconds']:.3f} s"),
    ]
    for attempt in answer["attempts"]:
        name = f"attempt {attempt['number']}{' ' + attempt['fault'] if attempt['fault'] else ''}"
        rows += [(name, text) for text in map(_describe_reply, attempt["replies"])]
    rows += [("intervention", text) for text in answer["interventions"]]
    rows += [("received", text) for text in map(_describe_reply, answer["received"])]
    return [*rows, ("error", answer["error"])] if answer["error"] else rows


def ledger_table(response: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of `/admin/v1/ledger` under their headings; nothing if there are none."""
    rows = [_ledger_row(row) for row in response["rows"]]
    return [_HEAD, *rows] if rows else []


def markdown_table(table: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in table]
    return [lines[0], "|" + "---|" * len(table[0]), *lines[1:]]


def _ledger_row(row: dict[str, Any]) -> tuple[str, ...]:
    share = row["share"]
    percent = f"{100 * share['value']:.1f} % ({100 * share['low']:.1f}-{100 * share['high']:.1f})"
    counts = [str(row[name]) for name in ("repaired", "retried", "failed", "tokens")]
    model = " ".join(filter(None, (row["model"], row["quantization"])))
    tool, fault = row["tool"] or "(no call)", row["fault"] or "none"
    return (model, tool, fault, str(row["calls"]), percent, *counts, f"{row['seconds']:.1f}")


def _describe_reply(reply: dict[str, Any]) -> str:
    parts = [reply["text"] or "", *(f"{call['name']}({call['arguments']})" for call in reply["calls"])]
    return "\n".join(filter(None, parts)) or "(nothing)"


def _describe_attempt(attempt: dict[str, Any]) -> str:
    fault = attempt["fault"] or "delivered"
    details = " ".join(filter(None, (attempt["tool"], attempt["reason"])))
    return f"{fault}{f': {details}' if details else ''}, {attempt['seconds']:.3f} s"
