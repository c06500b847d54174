"""The markup of the known families as tables: openers, closers, message headers, special tokens."""
