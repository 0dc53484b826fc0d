"""What a container's spec asks of the GPUs and the host, the image's requirements (`AMD_REQUIRE_*`) included."""
