"""Which AMD GPUs does this machine have, and which did you mean?"""
