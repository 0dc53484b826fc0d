"""What runtimes run as a hook: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

CDI specs on disk and the config.json of running containers name this file: it must not move. Python compiles a program
at each start, so it only finds the packages and hands over.
"""

import sys

if __name__ == "__main__":
    sys.path[:0] = sys.argv[sys.argv.index("--import-from") + 1].split(":")

    from amd_gpu_tracker.hooks.program import main

    sys.exit(main(sys.argv[1:]))
