"""The id of the request that the current task works on, for log lines of code that does not know it."""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("forge_proxy.request_id", default="")
"""Empty outside of a request. Tasks that a request starts inherit it, also if they outlive the request: read it only
for what happens within one.
"""
