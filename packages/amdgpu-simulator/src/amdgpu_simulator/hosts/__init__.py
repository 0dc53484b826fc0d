"""Build a host as files, from a profile."""
