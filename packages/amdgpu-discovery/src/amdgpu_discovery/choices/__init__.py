"""Requests, where they stand, and choices such as `auto:2+gfx942`, which leave open which GPUs they get."""
