"""The reliability ledger: what went wrong per model and tool, and how it ended.

Each delivered call counts once. A call that was valid as the model wrote it has no fault. A call that was recovered
without a retry has the fault `call_in_text` or `repairable_arguments`. Each attempt that was retried counts under its
own fault: `retried` if the request ended with a valid response, else `failed`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from operator import add, attrgetter
from typing import Any, TypeVar

from forge_proxy.core.guardrails.turn import Fault, Outcome
from forge_proxy.core.requests.records import AttemptRecord, CallRecord, RequestRecord

NO_FAULT = ""
CALL_IN_TEXT = "call_in_text"
"""The call was in the text of the response and was recovered."""
REPAIRABLE_ARGUMENTS = "repairable_arguments"
"""The arguments of the call were invalid, and there was only one possible repair."""
UNKNOWN_TOOL = "(unknown)"
"""The tool of a call whose name the model invented: each name would be a row of its own."""


@dataclass(frozen=True, slots=True)
class LedgerKey:
    """A row of the ledger. `tool` is empty for a response without a call, `fault` for a valid call."""

    model: str
    quantization: str
    tool: str
    fault: str


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """The counts of a row."""

    calls: int = 0
    """Calls, or responses without one, that had this fault."""
    clean: int = 0
    """Calls that were valid as the model wrote them."""
    repaired: int = 0
    """Calls that were recovered without a retry."""
    retried: int = 0
    """Attempts after which a retry led to a valid response."""
    failed: int = 0
    """Attempts whose request did not end with a valid response."""
    tokens: int = 0
    """Tokens of the attempts that were retried, prompt and completion."""
    seconds: float = 0.0
    """Seconds that the model server took for them."""

    def __add__(self, other: LedgerCounts) -> LedgerCounts:
        return _add(self, other)


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """How requests ended. Requests without tools are counted in `requests` only."""

    requests: int = 0
    clean: int = 0
    """Valid at the first attempt, as the model wrote it."""
    repaired: int = 0
    """Valid after a call was recovered or repaired, without a retry."""
    retried: int = 0
    """Valid after one or more retries."""
    exhausted: int = 0
    """Not valid after the last retry."""
    errors: int = 0
    """Ended in an error."""
    abandoned: int = 0
    """The client disconnected."""
    tokens: int = 0
    """Tokens of all attempts, prompt and completion."""
    retry_tokens: int = 0
    """Tokens of the attempts that were retried."""
    retry_seconds: float = 0.0
    """Seconds that the model server took for those attempts."""

    def __add__(self, other: RequestCounts) -> RequestCounts:
        return _add(self, other)

    @property
    def judged(self) -> int:
        """Requests whose response the guardrails judged to the end."""
        return self.clean + self.repaired + self.retried + self.exhausted

    @property
    def recovered(self) -> int:
        """Requests that ended with a valid response only because of the guardrails."""
        return self.repaired + self.retried


_Counts = TypeVar("_Counts", LedgerCounts, RequestCounts)
_Key = TypeVar("_Key", bound=Hashable)
_FIELD_OF_RESULT = {
    "clean": "clean",
    "rescued": "repaired",
    "repaired": "repaired",
    "retried": "retried",
    "exhausted": "exhausted",
    "failed": "errors",
    "abandoned": "abandoned",
}
_VALID = frozenset({"clean", "rescued", "repaired", "retried"})


def count_request(record: RequestRecord) -> RequestCounts:
    """Return the counts of one request."""
    field = _FIELD_OF_RESULT.get(record.result)
    return RequestCounts(
        requests=1,
        tokens=record.tokens.total,
        retry_tokens=record.retry_tokens,
        retry_seconds=sum(attempt.seconds for attempt in record.attempts if attempt.fault is not None),
        **({field: 1} if field is not None else {}),
    )


def count_calls(record: RequestRecord, model: str, quantization: str) -> dict[LedgerKey, LedgerCounts]:
    """Return what one request adds to the ledger."""
    rows: dict[LedgerKey, LedgerCounts] = {}
    is_valid = record.result in _VALID
    for tool, fault, counts in (*_count_delivered(record.calls), *_count_retried(record.attempts, is_valid=is_valid)):
        add_counts(rows, LedgerKey(model, quantization, tool, fault), counts)
    return rows


def add_counts(rows: dict[_Key, _Counts], key: _Key, counts: _Counts) -> None:
    """Add counts to those of a row, in place."""
    present = rows.get(key)
    rows[key] = counts if present is None else present + counts


_CLEAN_CALL = LedgerCounts(calls=1, clean=1)
_REPAIRED_CALL = LedgerCounts(calls=1, repaired=1)


def _count_delivered(calls: Iterable[CallRecord]) -> Iterable[tuple[str, str, LedgerCounts]]:
    for call in calls:
        match call.outcome:
            case Outcome.RESCUED:
                yield call.tool, CALL_IN_TEXT, _REPAIRED_CALL
            case Outcome.REPAIRED:
                yield call.tool, REPAIRABLE_ARGUMENTS, _REPAIRED_CALL
            case Outcome.EXHAUSTED:
                continue  # its attempts are counted
            case _:
                yield call.tool, NO_FAULT, _CLEAN_CALL


def _count_retried(attempts: Iterable[AttemptRecord], *, is_valid: bool) -> Iterable[tuple[str, str, LedgerCounts]]:
    for attempt in attempts:
        if attempt.fault is None:
            continue
        tool = UNKNOWN_TOOL if attempt.fault == Fault.UNKNOWN_TOOL else attempt.tool
        spent = attempt.tokens.total, attempt.seconds
        yield tool, attempt.fault, LedgerCounts(1, 0, 0, int(is_valid), int(not is_valid), *spent)


def _add(left: _Counts, right: _Counts) -> _Counts:
    """Add two sets of counts, field by field."""
    read = _read_counts(type(left))
    return type(left)(*map(add, read(left), read(right)))


@cache
def _read_counts(kind: type) -> attrgetter[tuple[Any, ...]]:
    """Return the function that reads all fields. `fields` takes longer than the additions."""
    return attrgetter(*(field.name for field in fields(kind)))
