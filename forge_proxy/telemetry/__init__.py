"""Observers of engine events (logging), and integration with the service manager."""
