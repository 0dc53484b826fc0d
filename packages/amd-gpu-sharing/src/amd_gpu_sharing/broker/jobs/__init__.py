"""The jobs that run with reserved GPUs: their processes, their time limits, and how they end."""
