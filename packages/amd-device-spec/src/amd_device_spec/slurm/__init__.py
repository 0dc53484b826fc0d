"""What a container may have in a job of Slurm; loaded only where a container's environment speaks of one."""
