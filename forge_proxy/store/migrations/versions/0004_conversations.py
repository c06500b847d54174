"""Conversations: their metadata, and those that only their responses name so far."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table, with a row for each conversation that has responses."""
    op.create_table(
        "conversations",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
    )
    op.create_index("conversations_by_expiry", "conversations", ["expires_at"])
    op.execute(
        "INSERT INTO conversations (owner, id, created_at, expires_at, metadata)"
        " SELECT owner, conversation_id, min(created_at), max(expires_at), '{}' FROM responses"
        " WHERE conversation_id IS NOT NULL GROUP BY owner, conversation_id"
    )


def downgrade() -> None:
    """Drop the table. Responses keep the names of their conversations."""
    op.drop_table("conversations")
