"""Readers for the values and bodies of calls: JSON, lenient JSON, Python literals, XML-like tags."""
