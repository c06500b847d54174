"""Where runs are stored: SQLite by default, PostgreSQL by URL. Its modules but `config` load SQLAlchemy."""
