"""Alembic environment: applies all pending migrations on the given connection in one transaction."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=True,  # on SQLite too: `connections.py` issues BEGIN explicitly
)
context.run_migrations()
