"""The tracker's files: the policy, the leases, the lock, the refusals and the history."""
