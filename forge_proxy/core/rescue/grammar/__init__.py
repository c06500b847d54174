"""Markup of the known model families as tables: openers, closers, headers, special tokens, keys of JSON calls."""
