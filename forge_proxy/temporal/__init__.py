"""Schedules jobs through a Temporal server, so that several daemons share them (extra `temporal`).

Imported only if `jobs.scheduler` is `temporal`.
"""
