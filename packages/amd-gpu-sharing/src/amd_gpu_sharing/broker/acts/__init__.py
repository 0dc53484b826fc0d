"""What requests do: those that ask for GPUs, and those about what their users have or wait for already."""
