"""Changes single expressions of forge_proxy/core, and checks that a test fails for each change: `make mutants`."""
