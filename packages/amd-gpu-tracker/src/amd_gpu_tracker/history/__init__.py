"""Past use of GPUs: reading the lines of `records.history`, and sampling how busy GPUs are."""
