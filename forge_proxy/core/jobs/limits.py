"""Limits on jobs."""

from __future__ import annotations

MAX_CHILDREN = 64
"""Child jobs of one action."""
MAX_TREE = 512
"""Jobs of one tree, its root included."""
MAX_DEPTH = 6
"""How deep jobs can be nested, the root included: a task, three levels of sub-tasks, a batch, and its lines."""
MAX_STATE_BYTES = 256 * 1024
"""Bytes of a job's row that are its state. Longer states are packed into documents."""
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""Bytes of one document, before it is compressed."""
