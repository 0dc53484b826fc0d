"""One container that runs, looked at from inside: what its first process may open, and what its image has."""
