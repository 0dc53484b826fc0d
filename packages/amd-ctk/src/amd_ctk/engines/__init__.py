"""The configuration of container engines: what to change in it, and changing nothing else."""
