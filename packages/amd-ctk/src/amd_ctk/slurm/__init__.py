"""Slurm's configuration for a node's GPUs, and the errors in it."""
