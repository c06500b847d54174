"""Settings of all tests of the store."""

from __future__ import annotations

import pytest

from forge_proxy.store import connections


@pytest.fixture(autouse=True)
def short_wait_for_locked_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that lock the file see the error after half a second."""
    monkeypatch.setattr(connections, "_BUSY_SECONDS", 0.5)
