"""Generated tasks: ten kinds over each of the tool families. `tasks` is imported only if they are selected."""
