"""JSON and TOML files that keep every byte, and oci.conf that keeps every line, that an edit does not change."""
