"""What GPUs do now: their memory, the processes that use it, and how busy they are, by the kernel's own accounting."""
