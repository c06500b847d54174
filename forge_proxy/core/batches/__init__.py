"""Batches, the pure half: lines, their order and their shards, records. `forge_proxy.batches` executes them."""
