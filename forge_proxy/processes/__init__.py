"""Starts programs so that nothing of them outlives the daemon."""
