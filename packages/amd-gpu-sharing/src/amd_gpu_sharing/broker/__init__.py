"""Reserve GPUs for all users with an account: a small root process behind a socket, which runs only while needed."""
