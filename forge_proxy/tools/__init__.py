"""Executes the tools of runs by HTTP callbacks and MCP servers."""
