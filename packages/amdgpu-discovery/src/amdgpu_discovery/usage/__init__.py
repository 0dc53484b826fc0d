"""Current use of GPUs: their memory, the processes that use it, and how busy they are, from the kernel's accounting."""
