"""A proxy in front of a registry that answers the name of an index with the one image that fits this host."""
