"""Images in registries."""
