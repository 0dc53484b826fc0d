"""What runtimes run as a hook: `python -I -S hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

It is compiled anew each time, so it only finds the packages, wherever pip, deb or rpm put them, and hands over.
"""

import sys

if __name__ == "__main__":
    sys.path[:0] = sys.argv[sys.argv.index("--import-from") + 1].split(":")
    from amd_gpu_tracker.hook_program import main

    sys.exit(main(sys.argv[1:]))
