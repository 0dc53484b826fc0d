"""Current use of GPUs: their memory, how busy they are, and the processes and people that use them."""
