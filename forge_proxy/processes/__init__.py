"""Starts programs so that no process of theirs outlives the daemon."""
