"""Durable jobs, the pure half: records, actions, limits and large texts. `forge_proxy.jobs` executes them."""
