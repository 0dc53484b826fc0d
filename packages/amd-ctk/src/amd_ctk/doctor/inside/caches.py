"""Which caches of compiled kernels a container has filled itself: those that its image brought are older than it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice

# In the container's own words; what looks like anything else is not taken into advice.
HOME = re.compile(r"/[\w./-]{1,200}", re.ASCII)
USUAL_HOME = "/root"
# Of MIOpen, the code object manager and Triton.
CACHES = (".cache/miopen", ".cache/comgr", ".triton/cache")
MOST_NAMES = 1000


def find_home(variables: Mapping[str, str]) -> str:
    """Return the home directory of a container's user, the usual one where the variable has no plain path."""
    home = variables.get("HOME", "")
    return home.rstrip("/") if HOME.fullmatch(home) else USUAL_HOME


def is_above_cache(path: str, home: str) -> bool:
    """Return whether a cache below a home directory is at a path, or below it."""
    return any(f"{home}/{name}/".startswith(f"{path.rstrip('/')}/") for name in CACHES)


def find_compiled(home: str, start: float) -> list[str]:
    """Return the caches below a home directory in which something was made after `start`, in seconds since 1970."""
    return [path for path in (f"{home}/{name}" for name in CACHES) if any(made > start for made in _times(path))]


def _times(path: str) -> Iterator[float]:
    """Yield when the directories of a cache were last changed; an empty one yields nothing."""
    try:
        with os.scandir(path) as entries:
            for entry in islice(entries, MOST_NAMES):
                yield entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return
