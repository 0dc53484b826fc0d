"""Change the configuration file of an engine: plan, check, write, undo."""
