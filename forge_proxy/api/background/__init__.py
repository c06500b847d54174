"""Responses with `background: true`: durable jobs whose state, result and events clients read later."""
