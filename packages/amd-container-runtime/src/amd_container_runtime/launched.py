"""What the launcher of a pip installation starts, with its own path as the first argument.

It runs as `python3 -I -S .../launched.py`, where neither site-packages nor this directory is on the path. For deb
and rpm packages `packaged.py` stands in its place.
"""

import gc
import sys

# No run lasts until anything is worth collecting.
gc.disable()
if not __package__:
    sys.path.insert(0, __file__.removesuffix("/amd_container_runtime/launched.py"))

from amd_container_runtime.shim import main  # noqa: E402 - the path had to be found first

if __name__ == "__main__":
    del sys.argv[0]
    main()
