"""TAB in the shells that people type in."""
