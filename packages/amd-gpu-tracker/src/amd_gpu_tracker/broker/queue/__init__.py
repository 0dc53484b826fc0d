"""Who waits and who is served: the order, the leases that are given, and what ends."""
