"""Assembles the prompts of tasks: eleven sections in a fixed order, stable ones first. Equal inputs, equal bytes."""
