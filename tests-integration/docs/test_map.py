"""The map in docs/explanation/architecture.md leaves no module out, and names none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.documentation import CHECKOUT, read_page

SECTION = re.compile(r"^### (amd\w+)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
ENTRIES = {
    section[1]: set(re.findall(r"`([\w/.-]+(?:\.py|/))`", "".join(re.findall(r"^(\|.*?\|)", section[2], re.MULTILINE))))
    for section in SECTION.finditer(read_page("docs/explanation/architecture.md"))
}
PACKAGES = {path.name: path for path in CHECKOUT.glob("packages/*/src/amd*")}


def test_every_package_has_a_map() -> None:
    assert ENTRIES.keys() == PACKAGES.keys()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_is_in_the_map_or_in_a_folder_that_is(package: str) -> None:
    modules = [path.relative_to(PACKAGES[package]) for path in PACKAGES[package].rglob("*.py")]

    assert sorted(str(module) for module in modules if not is_mapped(module, ENTRIES[package])) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_in_the_map_is_there(package: str) -> None:
    assert sorted(entry for entry in ENTRIES[package] if not (PACKAGES[package] / entry).exists()) == []


def is_mapped(module: Path, entries: set[str]) -> bool:
    # `__init__` and `__main__` are the package itself.
    return module.name.startswith("__") or str(module) in entries or f"{module.parts[0]}/" in entries
