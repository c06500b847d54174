"""The faults, in groups of one kind: the tables of the document and their columns."""

from __future__ import annotations

from collections.abc import Mapping

from tests.harness import mistakes
from tests.harness.fault import Fault
from tests.harness.faults import calls, finish, patches, status, stream, transport

GROUPS: Mapping[str, tuple[Fault, ...]] = {
    "mistakes": mistakes.FAULTS,
    "transport": transport.FAULTS,
    "stream": stream.FAULTS,
    "finish": finish.FAULTS,
    "calls": calls.FAULTS,
    "status": status.FAULTS,
    "patches": patches.FAULTS,
}
FAULTS: Mapping[str, Fault] = {fault.name: fault for group in GROUPS.values() for fault in group}
