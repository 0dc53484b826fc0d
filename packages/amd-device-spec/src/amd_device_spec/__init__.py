"""Describes AMD GPUs to container engines: OCI runtime edits and CDI specs."""
