"""What an image requires of the GPUs and the host of its container: `AMD_REQUIRE_*`, in NVIDIA's grammar."""
