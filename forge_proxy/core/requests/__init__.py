"""The record of a finished request, for metrics, the request store and the reliability ledger."""
