"""Schedules of jobs, and notifications that still have to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "job_schedules",
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("interval", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("job_id", sa.String(128)),
    )
    op.create_table(
        "job_notifications",
        sa.Column("job_id", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("event", sa.Integer, primary_key=True, autoincrement=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("job_notifications")
    op.drop_table("job_schedules")
