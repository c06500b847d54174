"""Schedules jobs through a Temporal server, so that several daemons share them (extra `temporal`).

temporalio itself is imported only if `jobs.scheduler` is `temporal`, and after the daemon has begun to listen.
"""
