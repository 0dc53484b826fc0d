"""The program of hooks: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

CDI specs on disk and the config.json of running containers name this file, so it must not move. Python compiles a
program at each start, so this one only finds the packages and calls them.
"""

import gc
import posix
import sys

if __name__ == "__main__":
    # A hook ends before there is much garbage; looking for it takes a fifteenth of the time of a bare Python.
    gc.disable()
    sys.path[:0] = sys.argv[sys.argv.index("--import-from") + 1].split(":")

    from amd_gpu_tracker.hook_program import main

    # Nothing is left to write, and a container waits. A normal exit of Python goes through all modules once more, which
    # takes a sixth of the time of a bare Python.
    posix._exit(main(sys.argv[1:]))
