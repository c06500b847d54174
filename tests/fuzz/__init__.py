"""Fuzzing of `core/rescue`: `python -m tests.fuzz --minutes 10`, and the inputs that once failed."""
