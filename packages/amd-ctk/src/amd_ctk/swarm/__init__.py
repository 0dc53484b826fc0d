"""Docker Swarm: what a node offers to a cluster, what of it is promised, and the services that are done with it."""
