"""Who uses how much of each GPU now: the kernel's counts, joined with what the tracker knows of containers."""
