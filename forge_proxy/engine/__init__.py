"""Answers one request: sends it to a backend, judges the response and retries.

Contains no HTTP and no SQL, and starts no processes except those of its process pool.
"""
