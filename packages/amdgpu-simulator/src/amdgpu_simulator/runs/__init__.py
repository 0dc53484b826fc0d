"""Run commands on a simulated host, and break its GPUs."""
