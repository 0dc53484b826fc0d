"""What users ask, over which connection, who may ask it, and which GPUs it means."""
