"""What writes generated files: `python -m scripts` (`make generate`). Not part of the package."""
