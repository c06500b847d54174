"""The overhead of the daemon (`python -m tests.bench`) and the effect of nudge wordings (`python -m
tests.bench.nudges`).

Not part of the test suite: run by hand or by `make bench` and `make nudges`. docs/decisions has the results.
"""
