"""Which container gets which GPU."""
