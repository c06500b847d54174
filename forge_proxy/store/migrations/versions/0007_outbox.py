"""Messages about jobs that still have to be sent to another scheduler."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "job_outbox",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("job_id", sa.String(128), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("signal", sa.String(16), nullable=False),
    )
    op.create_index("job_outbox_by_job", "job_outbox", ["job_id"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("job_outbox")
