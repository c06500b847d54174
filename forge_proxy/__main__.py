"""`python -m forge_proxy` is the `forge-proxy` command."""

from forge_proxy.cli import main

main()
