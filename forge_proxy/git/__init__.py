"""Repositories of tasks: the git program, worktrees with their branches, files that cannot lead outside, merges.

Nothing here pushes or fetches, and only `review.py` moves a branch that is not a task's own.
"""
