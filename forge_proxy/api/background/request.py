"""The stored form of a request whose response is generated in the background."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from forge_proxy.core.errors import InvalidRequest
from forge_proxy.core.jobs.records import StoredJob
from forge_proxy.core.jsontypes import JsonObject
from forge_proxy.core.requests.records import RequestOrigin
from forge_proxy.wire.clients.errors import ClassifiedError
from forge_proxy.wire.clients.responses.errors import encode_failure
from forge_proxy.wire.clients.responses.response_object import ResponseHead, encode_repeated


@dataclass(frozen=True, slots=True)
class BackgroundRequest:
    """The state of a job of the kind `response`. `created` is in seconds since 1970."""

    body: JsonObject
    """The client's body; empty once the response is complete."""
    created: int
    request_id: str
    client: str
    """The client for which the request waits: slots are shared fairly among clients."""
    switches: str | None
    """The value of `x-forge-guardrails`."""
    key_label: str
    program: str
    streams: bool
    """Whether the events of the response are stored."""

    @classmethod
    def read(cls, state: str) -> BackgroundRequest:
        """Return the request that `write` has written."""
        fields: dict[str, Any] = orjson.loads(state)
        return cls(**fields)

    def write(self) -> str:
        """Return the request as JSON. Raises `InvalidRequest` if it is nested too deeply."""
        try:
            return orjson.dumps(asdict(self)).decode()
        except (TypeError, RecursionError) as exc:
            raise InvalidRequest("body", "nested too deeply for a response in the background") from exc

    @property
    def origin(self) -> RequestOrigin:
        """Where the request came from."""
        return RequestOrigin("responses", self.key_label, self.program, "background")

    def document(self, response_id: str, status: str, error: ClassifiedError | None = None) -> bytes:
        """Return the response without output as JSON."""
        model = self.body.get("model")
        head = ResponseHead(
            encode_repeated(self.body), response_id, self.created, model if isinstance(model, str) else ""
        )
        return head.encode(status, [], store=True, error=encode_failure(error) if error else None)


_STATUSES = {"queued": "queued", "failed": "failed", "cancelled": "cancelled"}


def read_job_response(job: StoredJob, state: str) -> bytes:
    """Return the response of a job as JSON: its result, or its status. `state` is the job's own state, not packed."""
    if job.is_finished and job.outcome is not None:
        return job.outcome.encode()
    return BackgroundRequest.read(state).document(job.id, _STATUSES.get(job.status, "in_progress"))
