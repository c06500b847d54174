"""Detects graphics cards and their memory, RAM and cores. Used to size models; the daemon runs without it."""
