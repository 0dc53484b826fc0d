"""Prove on hardware that containers get the GPUs that they ask for, and no other."""
