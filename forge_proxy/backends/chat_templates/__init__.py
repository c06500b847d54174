"""The chat templates of models: where the daemon reads them, and how it renders them safely."""
