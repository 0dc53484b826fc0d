"""Hook of runtimes: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

CDI specs on disk and the config.json of running containers name this file. So it must not move, and has no version. It
looks up the current version of the toolkit once and runs its code.
"""

import gc
import posix
import sys

if __name__ == "__main__":
    # A hook ends before there is much garbage. Collecting it takes a fifteenth of a bare Python's run time.
    gc.disable()
    library = "/usr/lib/amd-container-toolkit"
    modules = f"{library}/{posix.readlink(f'{library}/current')}/python"
    sys.path.insert(0, modules)

    # This file is new as soon as its package is unpacked, but the former version serves until all parts have come.
    try:
        from amdgpu_discovery.command_line.module_file import use_module_file
    except ImportError:
        pass
    else:
        use_module_file(modules)

    from amd_gpu_tracker.hook_program import main

    # Nothing is left to write, and a container waits. Python's normal exit visits all modules again, which takes a
    # sixth of a bare Python's run time.
    posix._exit(main(sys.argv[1:]))
