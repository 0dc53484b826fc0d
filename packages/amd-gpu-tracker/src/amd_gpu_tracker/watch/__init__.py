"""What people and programs see of GPUs: their state, their use, past use, and how each is shown."""
