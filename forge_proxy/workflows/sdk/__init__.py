"""The Python API for programs that run workflows, or that add guardrails to their own agent loop."""
