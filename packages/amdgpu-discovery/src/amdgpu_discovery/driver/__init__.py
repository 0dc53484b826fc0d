"""What the driver says in /sys and /dev: its GPUs, their device nodes, and other drivers of AMD GPUs."""
