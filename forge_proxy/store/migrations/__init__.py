"""How the tables came to be what they are, for Alembic. Run when a store is opened, never by hand."""
