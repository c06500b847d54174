"""The ollama package for Python, whole and streamed, by Ollama's own API."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv

_MODES = ("whole", "stream")

ROWS = program(Venv("ollama-python", ("ollama",)), "ollama_python.py", *_MODES, is_served_directly=False)
