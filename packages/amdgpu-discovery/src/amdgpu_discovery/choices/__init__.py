"""Requests that say what is needed, such as `auto:2+gfx942`, and leave open which GPUs these are."""
