"""What programs use that run workflows, or guard a loop of their own, in Python."""
