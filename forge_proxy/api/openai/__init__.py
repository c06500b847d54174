"""The routes of the OpenAI-compatible API."""
