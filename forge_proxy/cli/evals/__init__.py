"""`forge-proxy eval`: measures what a model makes of workflows, and what each guardrail is worth on it."""
