"""`forge-proxy eval`: evaluates a model on workflows, and the effect of each guardrail."""
