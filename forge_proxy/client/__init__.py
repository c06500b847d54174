"""Programs and commands talk to a running daemon: its admin API over HTTP. Nothing here runs in the daemon."""
