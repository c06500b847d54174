"""Tools of MCP servers. `session` and `connection` import the official package, on first use: a third of a second."""
