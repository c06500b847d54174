"""Durable tasks: assembles prompts, calls models, writes and checks files, waits for a person, in phases of a job."""
