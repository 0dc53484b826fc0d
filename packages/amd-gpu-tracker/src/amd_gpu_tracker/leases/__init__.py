"""Which leases are alive, and the processes and containers that prove it."""
