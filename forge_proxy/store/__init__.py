"""Storage of runs: SQLite by default, PostgreSQL by URL. All modules except `config` import SQLAlchemy."""
