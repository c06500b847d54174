"""The domain of forge-proxy: chats, guardrails, budgets, workflows. Pure: no clock, network, randomness or I/O."""
