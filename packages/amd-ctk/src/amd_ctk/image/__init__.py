"""What an image can run on: its targets, what it requires, and which of several fits this host."""
