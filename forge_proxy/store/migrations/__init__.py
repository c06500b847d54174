"""Alembic migrations. They run when a store is opened, never by hand."""
