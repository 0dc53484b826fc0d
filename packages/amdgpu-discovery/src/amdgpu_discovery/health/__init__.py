"""The health of GPUs: error counters, temperature, power, memory in use, and whether the driver answers."""
