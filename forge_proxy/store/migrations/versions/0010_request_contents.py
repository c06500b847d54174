"""The texts of requests, if `store.content` is on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "request_contents",
        sa.Column("number", _NUMBER, sa.ForeignKey("requests.number", ondelete="CASCADE"), primary_key=True),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("request_contents_by_size", "request_contents", ["size"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("request_contents")
