"""Users' requests: their protocol and connections, who may send them, and which GPUs they mean."""
