"""Count the levels of imports in distributions. Example: python checks/import_floors.py packages/*/src

A module is one floor above the highest module that it imports. A wing is a folder of a distribution, or a module
outside any folder. Imports inside functions and for types count; packages, which only re-export names, do not.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set
from pathlib import Path

from import_circles import read_imports, wing_of, without_packages


def main(roots: list[str]) -> int:
    """Print the figures of each distribution below these source directories."""
    for root in roots:
        imports = without_packages(read_imports([Path(root)]))
        arrows = [(name, other) for name, others in imports.items() for other in others]
        between = [(wing_of(name), wing_of(other)) for name, other in arrows if wing_of(name) != wing_of(other)]
        print(
            f"{Path(root).parent.name}: {len(imports)} modules, {count_floors(imports)} floors, {len(arrows)} arrows,"
            f" {len(between)} of them between {len({wing_of(name) for name in imports})} wings"
            f" ({len(set(between))} pairs)"
        )
    return 0


def count_floors(imports: Mapping[str, Set[str]]) -> int:
    """Return the number of floors; the imports must have no circle."""
    floors: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in floors:
            floors[name] = 1 + max((floor(other) for other in imports[name]), default=0)
        return floors[name]

    return max(map(floor, imports), default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
