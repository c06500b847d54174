"""Limits on batches."""

from __future__ import annotations

MAX_LINES = 50_000
MAX_ERRORS = 100
"""Reported faults of a file. All lines are checked."""
MAX_CUSTOM_ID = 512
"""Characters of a line's `custom_id`."""
MIN_SHARD = 25
"""Lines of a shard, unless the batch has fewer."""
MAX_SHARDS = 64
"""As many as child jobs of one action."""
HOUR = 3600
MIN_WINDOW, MAX_WINDOW = HOUR, 7 * 24 * HOUR
"""Seconds of a completion window."""
