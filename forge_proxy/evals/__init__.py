"""Evaluates models on workflows with and without guardrails: scenarios, runs, scores, reports."""
