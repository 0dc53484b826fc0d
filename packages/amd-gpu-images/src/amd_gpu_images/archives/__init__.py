"""Images in archives: of OCI and of Docker, and their layers."""
