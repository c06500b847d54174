"""Tools of MCP servers. Only `session` imports the official package, on first use: that takes a third of a second."""
