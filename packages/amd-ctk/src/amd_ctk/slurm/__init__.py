"""Slurm's configuration of a node's GPUs, and what is not as it should be in it."""
