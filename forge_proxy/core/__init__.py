"""The domain of forge-proxy: chats, calls, guardrails, budgets, workflows. Pure: no clock, network, randomness or I/O."""
