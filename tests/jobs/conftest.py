"""A store of jobs in SQLite."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.fakes.owned_store import OwnedJobRepository


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[OwnedJobRepository]:
    """Yield an open store."""
    opened = await OwnedJobRepository.open(f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
    yield opened
    await opened.close()
