"""Which processes and containers are alive."""
