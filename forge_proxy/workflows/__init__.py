"""Runs workflows: calls the engine, executes tools and enforces steps. Imports no HTTP, SQL or process library."""
