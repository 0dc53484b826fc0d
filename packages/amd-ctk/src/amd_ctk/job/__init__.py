"""Run a command with GPUs that are reserved for it."""
