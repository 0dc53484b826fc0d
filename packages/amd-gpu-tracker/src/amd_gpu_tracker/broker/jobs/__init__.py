"""What runs with GPUs that users reserved: its processes, its time, and its end."""
