"""One module for each change, in the order of `down_revision`."""
