"""The openai SDK for Python with the Responses API: whole, streamed, parsed, and with stored responses."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.clients import openai_python

ROWS = program(
    openai_python.ROWS[0].package,  # pyright: ignore[reportArgumentType]  it is one from PyPI
    "openai_responses.py",
    "create",
    "stream",
    "parse",
    "stored",
    name="openai-responses",
    is_served_directly=False,
)
