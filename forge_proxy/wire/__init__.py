"""The wire protocols: convert bytes and JSON to core types and back. Pure: no I/O, no waiting."""
