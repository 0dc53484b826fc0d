"""Change the configuration files of engines: plan, check, write, undo."""
