"""One module per migration, ordered by `down_revision`."""
