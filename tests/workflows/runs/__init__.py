"""Stored runs."""
