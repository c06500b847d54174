"""Random texts against `core/rescue`: `python -m tests.fuzz --minutes 10`, and the inputs that once broke it."""
