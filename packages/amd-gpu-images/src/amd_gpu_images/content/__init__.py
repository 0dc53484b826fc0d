"""What the files of an image say about GPUs."""
