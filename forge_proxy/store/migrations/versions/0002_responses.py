"""Stored responses and their items."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "responses",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("previous_id", sa.String(64)),
        sa.Column("conversation_id", sa.String(64)),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("responses_by_expiry", "responses", ["expires_at"])
    op.create_index("responses_by_conversation", "responses", ["owner", "conversation_id", "created_at"])
    op.create_table(
        "response_items",
        sa.Column("response_id", sa.String(64), sa.ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("response_items_by_id", "response_items", ["id"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("response_items")
    op.drop_table("responses")
