"""Reserve GPUs for all users with an account: one small process of root, behind a socket, while it is needed."""
