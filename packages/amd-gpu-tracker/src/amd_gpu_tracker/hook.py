"""What runtimes run as a hook: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

CDI specs on disk and the config.json of running containers name this file: it must not move. Python compiles a program
at each start, so it only finds the packages and hands over.
"""

import gc
import posix
import sys

if __name__ == "__main__":
    # A hook ends before there can be much garbage; looking for it takes a fifteenth of what a bare Python takes.
    gc.disable()
    sys.path[:0] = sys.argv[sys.argv.index("--import-from") + 1].split(":")

    from amd_gpu_tracker.hook_program import main

    # Nothing is left to write, and a container waits: at its end Python goes through all modules once more, which takes
    # a sixth of what a bare Python takes.
    posix._exit(main(sys.argv[1:]))
