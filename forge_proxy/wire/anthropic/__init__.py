"""Anthropic's Messages dialect, as a backend speaks it: a `ModelCall` to a request, events to chunks."""
