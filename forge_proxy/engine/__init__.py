"""Answers one request: asks a backend, judges what comes, asks again.

Knows no HTTP, no SQL, and no processes but those it thinks in.
"""
