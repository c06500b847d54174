"""Checks run in real bubblewrap."""

from __future__ import annotations

import pytest

from forge_proxy.checks.bubblewrap import BubblewrapSandbox
from forge_proxy.checks.commands import CommandLimits
from forge_proxy.core.tasks.errors import CheckUnavailable


@pytest.fixture
async def bubblewrap() -> None:
    """Skip the test if there is no bubblewrap that works."""
    try:
        await BubblewrapSandbox(CommandLimits()).probe()
    except CheckUnavailable as error:
        pytest.skip(str(error))
