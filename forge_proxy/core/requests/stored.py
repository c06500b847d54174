"""Requests as they are stored and listed."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.errors import ForgeError
from forge_proxy.core.requests.ledger import LedgerCounts, LedgerKey, RequestCounts
from forge_proxy.core.requests.records import RequestRecord

HOUR = 3600
"""The length of a ledger period, in seconds."""
DURATION_BOUNDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2)
"""Upper bounds of the classes of durations in seconds; the last class has none."""


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A finished request on its way into the store."""

    ended_at: float
    """Seconds since 1970."""
    record: RequestRecord
    model: str
    """The model under which it is counted: `other` if the model server does not list it."""
    quantization: str
    content: bytes | None = None
    """Its text, encoded; None if it is not stored."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request in the store. Requests are numbered in the order in which they ended."""

    number: int
    ended_at: float
    quantization: str
    record: RequestRecord


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Which requests a list shows; None means all."""

    request_id: str | None = None
    result: str | None = None
    model: str | None = None
    """The model that answered."""
    surface: str | None = None
    client: str | None = None
    """The label of the client's key."""
    fault: str | None = None
    """One of its attempts had this fault."""
    since: float | None = None
    """It ended at this time or later, in seconds since 1970."""
    until: float | None = None
    """It ended before this time."""


@dataclass(frozen=True, slots=True)
class RequestRetention:
    """How many requests are kept and for how long, and for how long the ledger is kept."""

    request_days: int
    max_requests: int
    ledger_days: int
    content_days: int = 7
    max_content: int = 500 * 2**20
    """Bytes of the texts of requests, as they are stored."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the ledger, added up over a period."""

    key: LedgerKey
    counts: LedgerCounts


@dataclass(frozen=True, slots=True)
class RequestHour:
    """How the requests of one hour ended."""

    starts_at: int
    """Seconds since 1970."""
    model: str
    quantization: str
    counts: RequestCounts


@dataclass(frozen=True, slots=True)
class DurationClass:
    """How many requests of a model had a duration of one class."""

    model: str
    measure: str
    """`total`, or `first_output`: until the first piece of the response."""
    bucket: int
    """Index of its upper bound in `DURATION_BOUNDS`."""
    count: int


class RequestNotStored(ForgeError):
    """No request with that number or id is stored."""

    def __init__(self, request: str) -> None:
        super().__init__(f"no request {request[:140]!r} is stored; it may be older than store.request_days")
