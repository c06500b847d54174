"""The version of forge-proxy. The build reads it from here (`pyproject.toml`)."""

__version__ = "0.2.0"
