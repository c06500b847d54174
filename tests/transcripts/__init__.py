"""Recorded exchanges between clients, the daemon and model servers, whose bytes no change of the code may alter."""
