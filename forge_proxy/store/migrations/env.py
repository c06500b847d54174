"""What Alembic runs: the changes that are missing, on the connection it was given, all of them or none."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
    transactional_ddl=True,  # on SQLite too: its connections begin transactions as they are told (`connections.py`)
)
context.run_migrations()
