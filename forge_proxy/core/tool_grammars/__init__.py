"""The grammars of tools whose argument is a text: reading them, matching texts, repairing framing, encoding as GBNF."""
