"""The public names of a package, imported when they are first used.

Every container start imports the packages, and needs hardly any of these names.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_exports(package: str, module_by_name: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that offers names of its modules, and its version as `__version__`."""

    def find(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version(package.replace("_", "-"))
        if name not in module_by_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = f"{package}.{module_by_name[name]}"
        __import__(module)
        return getattr(sys.modules[module], name)

    return find
