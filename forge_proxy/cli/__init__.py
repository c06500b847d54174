"""The command line: serve, demo, check, rescue."""

from forge_proxy.cli.app import main

__all__ = ["main"]
