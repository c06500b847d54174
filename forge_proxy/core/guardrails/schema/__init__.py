"""The JSON Schemas of tools: compilation, validation of arguments, the cost of a check, and faults as text."""
