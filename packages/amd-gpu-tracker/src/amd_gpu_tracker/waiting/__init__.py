"""Wait in line for GPUs: tickets, what wakes those who wait, and the words that they print."""
