"""What an installed system has of compiled modules, and of what containers start faster with."""

from __future__ import annotations

from collections.abc import Callable

_COMPILED = """find /usr/lib/amd-container-toolkit -path '*/__pycache__/*' -name '*.cpython-*.pyc' |
    sed 's/.*[.]\\(cpython-[0-9]*\\)[.]pyc$/\\1/' | sort | uniq -c"""
_MODULES = "find /usr/lib/amd-container-toolkit -name '*.py' | wc -l"
_LIBRARY = "/usr/lib/amd-container-toolkit"
_CACHE = f"{_LIBRARY}/python/amd_container_runtime/__pycache__"
# The version of the python that starts sooner, and of the pack that it reads.
_QUICK = f"""if test -d {_CACHE}; then
    LC_ALL=C {_LIBRARY}/quick/python3 -ISBc 'import encodings, sys
assert encodings.__file__.startswith("{_LIBRARY}/quick/")
from importlib.util import MAGIC_NUMBER
open("{_CACHE}/packaged.pack-" + MAGIC_NUMBER.hex())
print(sys.implementation.cache_tag)'
fi"""


def compiled_for(run: Callable[[str], str]) -> dict[str, str]:
    """Return which part of the modules is compiled, by python: {"cpython-311": "all"}.

    Where the runtime is installed, "all" includes its pack and its quick python.
    """
    modules = int(run(_MODULES))
    counts = {python: int(count) for count, python in map(str.split, run(_COMPILED).splitlines())}
    quick = run(_QUICK).split()
    return {
        python: "all" if count == modules and quick in ([], [python]) else f"{count} of {modules}, {quick}"
        for python, count in counts.items()
    }
