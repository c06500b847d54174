"""The admin API: what the daemon has learned and does, for its operator."""
