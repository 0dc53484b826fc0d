"""What runtimes run as a hook: `python -I -S -B hook.py claim|release --import-from DIR[:DIR] [--host-root DIR]`.

It is compiled anew each time, so it only finds the packages, wherever pip, deb or rpm put them, or the modules that
are packed for it (amdgpu_discovery/pack.py), and hands over.
"""

import sys

if __name__ == "__main__":
    import marshal
    import posix
    from _frozen_importlib_external import MAGIC_NUMBER

    roots = sys.argv[sys.argv.index("--import-from") + 1].split(":")
    sys.path[:0] = roots
    try:
        pack = posix.open(f"{roots[0]}/amd_gpu_tracker/__pycache__/hook.pack-{MAGIC_NUMBER.hex()}", 0)
        code, packed = marshal.loads(posix.read(pack, 1 << 22))  # noqa: S302 - of the one who installed this program
        exec(code, {"root": roots[0], "packed": packed})  # noqa: S102 - as import does
    except (OSError, ValueError, EOFError, TypeError):
        pass
    from amd_gpu_tracker.hooks.program import main

    sys.exit(main(sys.argv[1:]))
