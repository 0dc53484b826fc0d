"""What was used, and by whom: reading what `records.history` wrote, and the looks that add how busy GPUs were."""
