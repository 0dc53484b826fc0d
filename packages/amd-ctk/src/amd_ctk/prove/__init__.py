"""Prove on hardware that containers get the GPUs that they request, and no others."""
