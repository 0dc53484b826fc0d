"""What OCI runtimes run when a container starts and ends."""
