"""Reads `sampling.yaml`: sampling values that the authors of models recommend."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import TypeAdapter

from forge_proxy.core.sampling import Recommendation

_FILE = Path(__file__).with_name("sampling.yaml")
_READER = TypeAdapter(dict[str, tuple[Recommendation, ...]])


def read_recommendations() -> tuple[Recommendation, ...]:
    """Return all recommendations, in the order of the file."""
    return _READER.validate_python(yaml.safe_load(_FILE.read_text(encoding="utf-8")))["families"]
