"""A jump of the system's clock moves no bound: what waits or expires goes by a clock that only runs forward.

Only stored data expires by the wall clock: all other clocks stop with the daemon.
"""

from __future__ import annotations

import re
from pathlib import Path

import forge_proxy

_WALL_CLOCK = re.compile(r"\btime\.(?:time|time_ns|localtime|gmtime)\b|\bdatetime\.(?:now|utcnow|today)\b")
_READ_BY_PEOPLE = {
    "api/admin/ledger.py",  # the period that is shown
    "api/endpoint.py",  # `created` of a response
    "api/ollama.py",  # `created_at` of a response
    "backends/llama_server/server_state.py",  # since when a state lasts
    "engine/background_hours.py",  # jobs.hours is local time
    "cli/requests.py",  # the period that is shown
    "cli/run_rows.py",  # times in a table
    "daemon/batches.py",  # when a batch was created and expires
    "daemon/database.py",  # when a response was stored
    "daemon/jobs.py",  # when a job was created and changed
    "daemon/tasks.py",  # in the ids of tasks
    "telemetry/ledger_watch.py",  # the hours that are compared
    "telemetry/event_feed.py",  # ids of events that grow across restarts
    "telemetry/request_writer.py",
    "telemetry/traces.py",  # the times of spans
    "tools/ports.py",  # timestamps of signatures, and a Retry-After that is a date
}


def test_the_wall_clock_is_only_asked_for_what_people_read() -> None:
    root = Path(forge_proxy.__file__).parent

    found = {str(file.relative_to(root)) for file in root.rglob("*.py") if _WALL_CLOCK.search(file.read_text())}

    assert found == _READ_BY_PEOPLE
