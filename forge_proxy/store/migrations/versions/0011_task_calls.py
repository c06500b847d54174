"""Records of the calls of tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "task_calls",
        sa.Column("task_id", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("tier", sa.String(32), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("task_calls_by_time", "task_calls", ["at"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("task_calls")
