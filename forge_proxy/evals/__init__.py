"""Measures what a model makes of workflows, with guardrails and without: scenarios, runs, scores, reports."""
