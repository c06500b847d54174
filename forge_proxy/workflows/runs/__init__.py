"""Stored runs: submitted as JSON, executed in the background, resumed after a restart."""
