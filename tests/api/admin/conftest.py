from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest

from tests.api.admin.world import world


@pytest.fixture
async def client() -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an application, for all cases of a test whose requests change nothing."""
    async with world() as made:
        yield made
