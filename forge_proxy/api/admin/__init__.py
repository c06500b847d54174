"""The admin API: state and control of the daemon, for its operator."""
