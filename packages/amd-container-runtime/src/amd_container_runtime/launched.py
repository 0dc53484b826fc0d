"""What the launcher starts, with its own path as the first argument.

It runs as `python3 -I -S .../launched.py`, where neither site-packages nor this directory is on the path.
"""

from __future__ import annotations

import sys

if not __package__:
    sys.path.insert(0, __file__.removesuffix("/amd_container_runtime/launched.py"))

from amd_container_runtime.shim import main

if __name__ == "__main__":
    del sys.argv[0]
    main()
