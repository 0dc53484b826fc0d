"""Who uses how much of each GPU now: what the kernel counts, joined with what the tracker knows of containers."""
