"""Durable tasks, the pure half: models, plans, prompts, edits, what a task does next. `forge_proxy.tasks` runs them."""
