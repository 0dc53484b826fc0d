"""What an installed system has of compiled modules, in the toolkit that serves."""

from __future__ import annotations

from collections.abc import Callable

_COMPILED = """find /usr/lib/amd-container-toolkit/current/ -path '*/__pycache__/*' -name '*.cpython-*.pyc' |
    sed 's/.*[.]\\(cpython-[0-9]*\\)[.]pyc$/\\1/' | sort | uniq -c"""
_MODULES = "find /usr/lib/amd-container-toolkit/current/ -name '*.py' | wc -l"


def compiled_for(run: Callable[[str], str]) -> dict[str, str]:
    """Return which part of the modules is compiled, by python: {"cpython-311": "all"}."""
    modules = int(run(_MODULES))
    counts = {python: int(count) for count, python in map(str.split, run(_COMPILED).splitlines())}
    return {python: "all" if count == modules else f"{count} of {modules}" for python, count in counts.items()}
