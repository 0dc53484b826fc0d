"""Wait in line for GPUs: tickets, and the words that are printed meanwhile."""
