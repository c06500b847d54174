"""The HTTP server: parses requests, calls the engine, renders responses. Makes no decisions."""
