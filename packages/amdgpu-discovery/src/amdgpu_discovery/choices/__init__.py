"""Choices: requests such as `auto:2+gfx942`, which describe GPUs and leave open which ones."""
