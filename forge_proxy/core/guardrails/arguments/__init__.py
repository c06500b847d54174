"""Repair of arguments by the schema of their tool: names, types and spellings of values."""
