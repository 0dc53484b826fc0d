"""Requests: the grammar in which users name GPUs, and choices such as `auto:2+gfx942`, which leave open which ones."""
