"""A running container from inside: what its first process may open, and what its image has."""
