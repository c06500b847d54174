"""Runs workflows: asks the engine, calls tools, enforces steps, stops. Knows no HTTP, SQL or process library."""
