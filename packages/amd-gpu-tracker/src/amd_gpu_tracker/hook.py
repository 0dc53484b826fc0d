"""What runtimes run as a hook: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

It is compiled anew each time, so it only finds the packages, wherever pip, deb or rpm put them, or the modules that
are packed for it (amdgpu_discovery/pack.py), and hands over.
"""

import gc
import posix
import sys

if __name__ == "__main__":
    # No run lasts until anything is worth collecting.
    gc.disable()
    roots = sys.argv[sys.argv.index("--import-from") + 1].split(":")
    sys.path[:0] = roots
    try:
        pack = posix.open(f"{roots[0]}/amd_gpu_tracker/__pycache__/hook.{sys.implementation.cache_tag}.pack", 0)
        if posix.read(pack, 4) == sys.modules["_frozen_importlib_external"].MAGIC_NUMBER:
            code, *packed = sys.modules["marshal"].loads(posix.read(pack, 1 << 22))
            space = {"__name__": "amdgpu_discovery.unpack"}
            exec(code, space)  # noqa: S102 - as import does
            space["unpack"](roots[0], *packed)  # type: ignore[operator]
    except (OSError, ValueError, EOFError, TypeError):
        pass
    from amd_gpu_tracker.hook_program import main

    sys.exit(main(sys.argv[1:]))
