"""Executes the tools of runs: by HTTP callbacks, and by MCP servers."""
