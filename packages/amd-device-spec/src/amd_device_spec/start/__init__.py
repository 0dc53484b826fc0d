"""What a starting container gets: one plan, which the runtime carries out and `amd-ctk explain` shows."""
