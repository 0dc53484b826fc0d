"""How GPUs are: errors that the driver counts, temperature, power, memory in use, and whether the driver answers."""
