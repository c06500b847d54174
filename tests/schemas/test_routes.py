"""A few made-up requests to every described route, the same ones each time; `make schemas` makes more."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.properties import SCALE
from tests.schemas.checks import operations, try_out
from tests.schemas.routes import Application

EXAMPLES = max(1, round(5 * SCALE))


@contextmanager
def running(*, managed: bool) -> Generator[Application]:
    application = Application(managed=managed)
    try:
        yield application
    finally:
        application.close()


@pytest.mark.long
def test_no_request_to_any_route_ends_in_a_500() -> None:
    with running(managed=True) as application:
        made = {one.label: try_out(application, one, EXAMPLES, seeded=True) for one in operations(application)}

        paths = application.description["paths"]
    assert set(made) == {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert all(made.values())


@pytest.mark.long
def test_nor_where_the_model_server_is_not_ours() -> None:
    with running(managed=False) as application:
        ours = [one for one in operations(application) if "/backend" in one.label]

        assert all(try_out(application, one, EXAMPLES, seeded=True) for one in ours)
