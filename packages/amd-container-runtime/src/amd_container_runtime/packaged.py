"""Where a call goes on that came through the launcher of the deb and rpm packages.

The launcher's few lines of python are compiled anew at each start, so whatever can be said here is said here.
"""

from __future__ import annotations

import posix
import sys

from amd_container_runtime import shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Serve a call, given the library's directory, the caller's LC_ALL behind "=" or "", then the words of the call."""
    locale = sys.argv[2]
    del sys.argv[:3]
    # Python starts sooner in the C locale; nobody else shall see it.
    del posix.environ[b"LC_ALL"]
    if locale:
        posix.environ[b"LC_ALL"] = locale[1:].encode("utf-8", "surrogateescape")
    shim.main()
