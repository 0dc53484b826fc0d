"""What the launcher starts, with its own path as the first argument.

It runs as `python3 -I -S .../launched.py`, where neither site-packages nor this directory is on the path, and is
compiled anew each time: short, and free of whatever can be said elsewhere (amdgpu_discovery/pack.py).
"""

import gc
import sys

# Nothing here lives long enough to be collected.
gc.disable()
if not __package__:
    root, _, name = __file__.rpartition("/amd_container_runtime/")
    sys.path.insert(0, root)
    try:
        import marshal

        with open(
            f"{root}/amd_container_runtime/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pack", "rb"
        ) as file:
            content = file.read()
        if content.startswith(sys.modules["_frozen_importlib_external"].MAGIC_NUMBER):
            code, *packed = marshal.loads(content[4:])
            space = {"__name__": "amdgpu_discovery.unpack", "__spec__": None}
            exec(code, space)
            space["unpack"](root, *packed)
    except (OSError, ValueError, EOFError, TypeError):
        pass  # without a pack, or with one that is of no use, modules are imported as ever

from amd_container_runtime.shim import main

if __name__ == "__main__":
    del sys.argv[0]
    main()
