"""The databases that every repository is tested with."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.fakes.postgres import Postgres


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.process)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of an SQLite file, and of a PostgreSQL database."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/runs.db"
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        yield server.create_database()
