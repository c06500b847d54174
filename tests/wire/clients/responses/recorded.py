"""Requests that real clients sent to `/v1/responses`: Codex, opencode, qwen-code and the openai package.

Their prompts are replaced by placeholder text, which is shortened here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED_REQUESTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded_requests.json").read_text()
)
"""Bodies by client, version and place in its conversation."""
