"""The openai SDK for Python in a plain loop: whole answers, streams, and its streaming helper with parsed arguments."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

ROWS = program(Venv("openai-python", ("openai>=3,<4",)), "openai_python.py", "whole", "stream", "helper")
