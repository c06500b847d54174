"""Reads what linters, type checkers and test runners print, and compares it with the base branch."""
