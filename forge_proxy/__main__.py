"""`python -m forge_proxy` runs the `forge-proxy` command."""

from forge_proxy.cli import main

if __name__ == "__main__":
    main()
