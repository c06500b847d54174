"""Anthropic's Messages API, as model servers speak it."""
