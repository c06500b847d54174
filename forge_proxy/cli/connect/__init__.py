"""`forge-proxy connect CLIENT`: the client's configuration, with the right address, key and window."""
