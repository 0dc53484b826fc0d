"""Docker Swarm: advertise the GPUs of a node, show reservations, and remove finished one-shot services."""
