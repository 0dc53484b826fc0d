"""The process that stands in for the service while one user's jobs wait; `wait.py` starts it as a program of its own.

    python3 -I stand_in.py ROOT PROC DESCRIPTOR PATH...

The paths are those of the starter's modules. Nothing of the toolkit can be imported before they are set.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Serve those who wait, in a child: the starter's own child ends at once, so that init reaps the server."""
    if os.fork():
        os._exit(0)
    root, directory_of_processes, descriptor, *paths = sys.argv[1:]
    sys.path[:] = paths
    from amd_gpu_sharing.broker.serve import serve_waiters

    serve_waiters(root, directory_of_processes, int(descriptor))


if __name__ == "__main__":
    main()
