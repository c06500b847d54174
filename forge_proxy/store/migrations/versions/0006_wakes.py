"""Columns of jobs for pending wakes, and for the id of the last change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("jobs", sa.Column("wake_requested", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("jobs", sa.Column("change_id", sa.String(16), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("jobs", "change_id")
    op.drop_column("jobs", "wake_requested")
