"""Tools of MCP servers. `session` and `connection` are imported on first use: the `mcp` package takes 0.3 s to load."""
