"""Applies the search/replace edits of a model to files: finds the text on four levels, and rejects doubtful edits."""
