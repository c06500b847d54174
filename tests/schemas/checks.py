"""What holds for the answer to any request at all, and trying it on made-up ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode

from tests.schemas.routes import Application, MadeUp

Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]


def operations(application: Application) -> Iterator[Operation]:
    """Every described operation."""
    for found in schemathesis.openapi.from_dict(application.description).get_all_operations():
        yield cast("Any", found).ok()


def check(answer: httpx.Response) -> None:
    """Check that the response is no 5xx of the daemon, and that an error has the format of the API of its path."""
    assert answer.status_code < 500 or answer.status_code in (501, 502, 503), answer.text
    assert answer.headers.get("x-request-id") or answer.request.url.path in ("/", "/health", "/healthz", "/readyz")
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        error = answer.json()["error"]
        if answer.request.url.path.startswith("/api/"):
            assert isinstance(error, str)
        elif answer.request.url.path.startswith("/v1/messages"):
            assert {"message", "type"} <= set(error)
        else:
            assert {"message", "type", "param", "code"} <= set(error)


def try_out(application: Application, operation: Operation, examples: int, *, seeded: bool) -> int:
    """Make requests to an operation, right ones and wrong ones. Says how many were made."""
    made = 0
    for mode in _modes(operation):

        @settings(
            max_examples=examples,
            derandomize=seeded,
            database=None,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def one(case: MadeUp) -> None:
            nonlocal made
            made += 1
            check(application.ask(case))

        one()
    return made


def _modes(operation: Operation) -> Sequence[GenerationMode]:
    """No request is a wrong one if only parts of its path vary: each is any string, and a string they always are."""
    varies = bool(operation.body) or any(one.location != "path" for one in operation.iter_parameters())
    return tuple(GenerationMode) if varies else (GenerationMode.POSITIVE,)
