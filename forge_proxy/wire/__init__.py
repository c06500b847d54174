"""The protocols: bytes and JSON to core types and back. Pure: nothing here waits or talks to anybody."""
