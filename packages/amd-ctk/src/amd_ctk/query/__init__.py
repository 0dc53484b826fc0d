"""Facts about the GPUs of a host, in the forms that other programs read."""
