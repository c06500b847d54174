"""Table definitions. Values that no query filters by are stored as JSON text."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, String, Table, Text

METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("status", String(32), nullable=False),
    Column("workflow", Text, nullable=False),
    Column("model", Text),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("last_event", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("submission", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("claim_key", Text, unique=True),
    Column("claim_digest", Text),
    Index("runs_by_status", "status", "id"),
)

EVENTS = Table(
    "run_events",
    METADATA,
    Column("run_id", String(64), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("type", String(32), nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Double, nullable=False),
)

RESPONSES = Table(
    "responses",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("previous_id", String(64)),
    Column("conversation_id", String(64)),
    Column("size", Integer, nullable=False),
    Column("document", Text, nullable=False),
    Index("responses_by_expiry", "expires_at"),
    Index("responses_by_conversation", "owner", "conversation_id", "created_at"),
)

ITEMS = Table(
    "response_items",
    METADATA,
    Column("response_id", String(64), ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("id", String(128), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("data", Text, nullable=False),
    Index("response_items_by_id", "id"),
)
