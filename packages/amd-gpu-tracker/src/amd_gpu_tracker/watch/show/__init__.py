"""What people see of the tracker's state."""
