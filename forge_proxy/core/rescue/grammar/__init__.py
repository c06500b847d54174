"""Markup of the known model families as tables: openers, closers, message headers, special tokens."""
