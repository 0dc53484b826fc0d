"""What runtimes run as a hook: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

CDI specs on disk and the config.json of running containers name this file: it must not move, and it has no version. It
goes on with the toolkit that serves now, and looks once which one that is.
"""

import gc
import posix
import sys

if __name__ == "__main__":
    # A hook ends before there can be much garbage; looking for it takes a fifteenth of what a bare Python takes.
    gc.disable()
    library = "/usr/lib/amd-container-toolkit"
    sys.path.insert(0, f"{library}/{posix.readlink(f'{library}/current')}/python")

    from amd_gpu_tracker.hook_program import main

    # Nothing is left to write, and a container waits: at its end Python goes through all modules once more, which takes
    # a sixth of what a bare Python takes.
    posix._exit(main(sys.argv[1:]))
