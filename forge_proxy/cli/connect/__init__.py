"""`forge-proxy connect CLIENT`: the configuration of a client, with address, key, models and context windows."""
