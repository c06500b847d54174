"""Finds out what the machine has: graphics cards and their memory, RAM, cores. Sizes models; never needed to run."""
