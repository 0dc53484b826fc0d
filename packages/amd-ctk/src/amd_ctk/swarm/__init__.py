"""Docker Swarm: advertise the GPUs of a node, show what is reserved, remove finished one-shot services."""
