"""Files and their content."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "files",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("is_complete", sa.Boolean, nullable=False),
    )
    op.create_index("files_by_owner", "files", ["owner", "created_at", "id"])
    op.create_index("files_by_expiry", "files", ["expires_at"])
    op.create_table(
        "file_blocks",
        sa.Column("file_id", sa.String(64), sa.ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("file_blocks")
    op.drop_table("files")
