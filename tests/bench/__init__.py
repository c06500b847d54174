"""What the daemon costs (`python -m tests.bench`) and which nudge wordings work (`python -m tests.bench.nudges`).

Not part of the test suite: run by hand or by `make bench` and `make nudges`. docs/decisions records what they showed.
"""
