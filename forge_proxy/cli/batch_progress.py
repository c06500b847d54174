"""Shows the progress of a batch."""

from __future__ import annotations

import sys
import time
from typing import Any
from urllib.parse import quote

from forge_proxy.cli.formatting import describe_duration
from forge_proxy.cli.run_rows import describe_time
from forge_proxy.client.remote import AdminClient, NoDaemon

_ENDED = ("failed", "completed", "expired", "cancelled")
_POLL_SECONDS = 1.0
_MAX_AWAY_SECONDS = 60.0
"""Seconds for which the daemon may be unreachable, such as during its restart."""
_STEP = 0.1
"""The fraction of lines after which a line is printed if the output is not a terminal."""


def watch_batch(remote: AdminClient, batch_id: str) -> dict[str, Any]:
    """Print the progress until the batch ends, and return it. Raises `NoDaemon` or `DaemonError`."""
    printer, away_since = _Printer(), None
    while True:
        try:
            batch = remote.ask("GET", f"/v1/batches/{quote(batch_id, safe='')}")
            away_since = None
        except NoDaemon:
            away_since = time.monotonic() if away_since is None else away_since
            if time.monotonic() - away_since > _MAX_AWAY_SECONDS:
                raise
            time.sleep(_POLL_SECONDS)
            continue
        printer.print(batch)
        if batch["status"] in _ENDED:
            printer.close()
            return batch
        time.sleep(_POLL_SECONDS)


class _Printer:
    """Prints one line that is replaced on a terminal, and otherwise one for each tenth of the lines."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ("", -1)

    def print(self, batch: dict[str, Any]) -> None:
        counts = batch["request_counts"]
        done = (counts["completed"] + counts["failed"]) / max(1, counts["total"])
        step = (batch["status"], int(done / _STEP))
        text = f"{batch['status']}: {describe_counts(batch)}"
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif step != self._last:
            print(text, file=sys.stderr, flush=True)
        self._last = step

    def close(self) -> None:
        if self._is_terminal:
            print(file=sys.stderr)


def describe_counts(batch: dict[str, Any]) -> str:
    """Describe the progress of a batch on one line."""
    counts, forge = batch["request_counts"], batch["forge"]
    words = [f"{counts['completed'] + counts['failed']} of {counts['total']} lines"]
    if counts["failed"]:
        words.append(f"{counts['failed']} failed")
    if forge["lines_per_second"]:
        words.append(f"{forge['lines_per_second']:.3g} lines/s")
    if forge["output_tokens_per_second"]:
        words.append(f"{forge['output_tokens_per_second']:.3g} tokens/s")
    if forge["remaining_seconds"]:
        words.append(f"{describe_duration(forge['remaining_seconds'])} remaining")
    return ", ".join(words)


def batch_rows(batch: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of `batches show`."""
    usage = batch["usage"]
    rows = [
        ("id", batch["id"]),
        ("status", batch["status"]),
        ("lines", describe_counts(batch)),
        ("endpoint", batch["endpoint"]),
        ("model", batch["model"] or "several, or the default"),
        ("tokens", f"{usage['input_tokens']} input, {usage['output_tokens']} output"),
        ("created", describe_time(batch["created_at"])),
        ("expires", describe_time(batch["expires_at"])),
        ("input", batch["input_file_id"]),
    ]
    rows += [(name, batch[f"{name}_file_id"]) for name in ("output", "error") if batch[f"{name}_file_id"]]
    faults: list[dict[str, Any]] = batch["errors"]["data"] if batch["errors"] else []
    for fault in faults:
        at = f"line {fault['line']}" if fault["line"] else "file"
        rows.append((at, f"{fault['code']}: {fault['message']}"))
    return rows
