"""Runs a workflow: asks the model, calls its tools, keeps to the steps, and knows when to stop."""
