"""Storage in SQLite by default, in PostgreSQL by URL: one database, and one repository per noun.

All modules except `config` import SQLAlchemy.
"""
