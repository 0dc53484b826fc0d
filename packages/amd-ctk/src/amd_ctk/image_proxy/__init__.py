"""A proxy in front of a registry that answers requests for an index with the one image that fits this host."""
