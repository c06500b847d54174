"""Listeners to what the engine tells: logs now, metrics and traces later."""
