"""Runs that are stored: submitted as JSON, driven in the background, gone on with after a restart."""
