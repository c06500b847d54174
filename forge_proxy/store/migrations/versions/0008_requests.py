"""Finished requests, the reliability ledger, and what its plots are made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows by itself only in a column of type INTEGER."""


def upgrade() -> None:
    """Create the tables."""
    _create_requests()
    _create_ledger()


def _create_requests() -> None:
    op.create_table(
        "requests",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("surface", sa.String(64), nullable=False),
        sa.Column("client", sa.String(64), nullable=False),
        sa.Column("program", sa.String(96), nullable=False),
        sa.Column("model", sa.Text),
        sa.Column("served", sa.Text),
        sa.Column("quantization", sa.String(32), nullable=False),
        sa.Column("is_streamed", sa.Boolean, nullable=False),
        sa.Column("tools", sa.Integer, nullable=False),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("queued", sa.Double, nullable=False),
        sa.Column("first_output", sa.Double),
        sa.Column("backend_seconds", sa.Double, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("requests_by_request_id", "requests", ["request_id"])
    op.create_index("requests_by_end", "requests", ["ended_at"])
    op.create_index("requests_by_result", "requests", ["result", "number"])
    op.create_index("requests_by_model", "requests", ["served", "number"])
    op.create_index("requests_by_surface", "requests", ["surface", "number"])
    op.create_index("requests_by_client", "requests", ["client", "number"])
    op.create_table(
        "request_faults",
        sa.Column("fault", sa.String(32), primary_key=True),
        sa.Column("number", _NUMBER, sa.ForeignKey("requests.number", ondelete="CASCADE"), primary_key=True),
    )
    op.create_index("request_faults_by_request", "request_faults", ["number"])


def _create_ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.String(256), primary_key=True),
        sa.Column("quantization", sa.String(32), primary_key=True),
        sa.Column("tool", sa.String(96), primary_key=True),
        sa.Column("fault", sa.String(32), primary_key=True),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("clean", sa.Integer, nullable=False),
        sa.Column("repaired", sa.Integer, nullable=False),
        sa.Column("retried", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
    )
    op.create_table(
        "request_hours",
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.String(256), primary_key=True),
        sa.Column("quantization", sa.String(32), primary_key=True),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("clean", sa.Integer, nullable=False),
        sa.Column("repaired", sa.Integer, nullable=False),
        sa.Column("retried", sa.Integer, nullable=False),
        sa.Column("exhausted", sa.Integer, nullable=False),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("abandoned", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("retry_tokens", sa.BigInteger, nullable=False),
        sa.Column("retry_seconds", sa.Double, nullable=False),
    )
    op.create_table(
        "request_durations",
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.String(256), primary_key=True),
        sa.Column("measure", sa.String(16), primary_key=True),
        sa.Column("bucket", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("count", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("request_durations")
    op.drop_table("request_hours")
    op.drop_table("ledger")
    op.drop_table("request_faults")
    op.drop_table("requests")
