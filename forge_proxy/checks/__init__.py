"""Deterministic checks of what a task has written: linters, formatters, tests, in a sandbox."""
