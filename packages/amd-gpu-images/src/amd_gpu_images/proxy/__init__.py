"""A proxy in front of a registry, which answers engines with the images that fit the host."""
