"""Forms learned from chat templates, measured: on templates of our own offline, on those in packages by `python -m`."""
