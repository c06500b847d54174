"""Runs workflows: calls the engine, executes tools, enforces steps. Uses no HTTP, SQL or process library."""
