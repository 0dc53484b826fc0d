"""JSON, TOML and oci.conf files that keep every byte an edit does not change."""
