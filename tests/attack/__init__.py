"""Attacks on the daemon: what a hostile client or model server could send, and what it costs."""
