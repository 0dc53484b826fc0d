"""The OCI runtime in front of runc that gives containers the AMD GPUs they ask for."""
