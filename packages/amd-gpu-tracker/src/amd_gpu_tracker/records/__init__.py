"""What the tracker keeps on disk: the policy, the leases, the lock and the refusals."""
