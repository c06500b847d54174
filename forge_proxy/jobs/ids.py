"""Ids of jobs."""

from __future__ import annotations

import secrets


def new_job_id(prefix: str, now: float) -> str:
    """Return a new id such as `run_…`; ids of one kind sort by time of creation."""
    return f"{prefix}_{round(now * 1000):012x}{secrets.token_hex(6)}"
