"""Where a call goes on that came through the launcher of the deb and rpm packages.

The launcher's few lines of python are compiled anew at each start, so whatever can be said here is said here.
"""

from __future__ import annotations

import posix
import sys

from amd_container_runtime import shim
from amdgpu_discovery.paths import absolute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Serve a call, given the library's directory, the caller's LC_ALL behind "=" or "", then the words of the call."""
    modules, locale = sys.argv[1:3]
    del sys.argv[:3]
    # Hooks outlive this process, run elsewhere, and the quick python may go with the next version of python.
    sys.executable = absolute(f"{modules.removesuffix('/python')}/python3")
    complete_encodings()
    # Python starts sooner in the C locale; nobody else shall see it.
    posix.environ.pop(b"LC_ALL", None)
    if locale:
        posix.environ[b"LC_ALL"] = locale[1:].encode("utf-8", "surrogateescape")
    shim.main()


def complete_encodings() -> None:
    """Let python find all encodings, of which the quick one (quick_python.py) has only what it starts with."""
    library = sys.path[2]
    sys.modules["encodings"].__path__.insert(0, f"{library}/encodings")
