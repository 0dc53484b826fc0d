"""What the launcher starts, with its own path as the first argument.

It runs as `python3 -I -S .../launched.py`, where neither site-packages nor this directory is on the path. As it is
compiled anew each time it says no more than it must: first the modules of its pack, if there is one
(amdgpu_discovery/pack.py), else the path from which they are imported.
"""

import gc
import sys

# No run lasts until anything is worth collecting.
gc.disable()
if not __package__:
    root = __file__.removesuffix("/amd_container_runtime/launched.py")
    sys.path.insert(0, root)
    try:
        with open(
            f"{root}/amd_container_runtime/__pycache__/launched.{sys.implementation.cache_tag}.pack", "rb"
        ) as file:
            content = file.read()
        if content.startswith(sys.modules["_frozen_importlib_external"].MAGIC_NUMBER):
            import marshal

            code, *packed = marshal.loads(content[4:])  # noqa: S302 - written by the one who installed this program
            space = {"__name__": "amdgpu_discovery.unpack"}
            exec(code, space)  # noqa: S102 - as import does
            space["unpack"](root, *packed)  # type: ignore[operator]
    except (OSError, ValueError, EOFError, TypeError):
        pass

from amd_container_runtime.shim import main  # noqa: E402 - the path had to be found first

if __name__ == "__main__":
    del sys.argv[0]
    main()
