"""Anthropic's Messages API, of Anthropic or a compatible model server."""
