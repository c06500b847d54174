"""The attack suite, `make attack`: hostile clients, model servers and tools against a real daemon on loopback.

Each attack is bounded in count and time. While it runs, an honest client measures how long small requests wait.
"""
