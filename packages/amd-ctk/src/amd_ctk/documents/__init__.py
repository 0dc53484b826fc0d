"""JSON and TOML files that keep every byte an edit does not change."""
