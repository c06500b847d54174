"""Durable jobs: stored after each phase, resumed by the next daemon. The kinds of jobs are in the packages above."""
