"""Changing the configuration file of an engine: plan it, check it, write it, undo it."""
