"""The queue: the order of waiting jobs, the leases they get, and the end of jobs."""
