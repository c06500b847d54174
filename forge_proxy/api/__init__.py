"""HTTP in: parses, calls the engine, renders. Decides nothing."""
