"""What a container may use in a Slurm job; loaded only if the container's environment mentions one."""
