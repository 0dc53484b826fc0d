"""Where a page of the documentation is."""

from __future__ import annotations

import pytest

from amd_ctk import pages

PAGE = "reference/cdi.md#names"


@pytest.fixture
def module_in(tmp_path, monkeypatch):
    """Return a function that puts the module, and the pages of packages, somewhere else."""

    def put(path):
        monkeypatch.setattr(pages, "__file__", str(tmp_path / path))
        monkeypatch.setattr(pages, "INSTALLED", str(tmp_path / "share"))
        return tmp_path

    return put


def write(directory):
    (directory / "reference").mkdir(parents=True)
    (directory / "reference/cdi.md").touch()


def test_in_a_checkout_it_is_below_docs(module_in):
    place = module_in("packages/amd-ctk/src/amd_ctk/pages.py")
    (place / "packages/amd-ctk/src/amd_ctk").mkdir(parents=True)
    write(place / "docs")
    write(place / "share")

    assert pages.find_page(PAGE) == "docs/reference/cdi.md#names"


def test_a_page_of_packages_is_where_they_install_it(module_in):
    place = module_in("usr/lib/amd_ctk/pages.py")
    write(place / "share")

    assert pages.find_page(PAGE) == f"{place}/share/reference/cdi.md#names"


def test_a_wheel_has_its_title(module_in):
    module_in("site-packages/amd_ctk/pages.py")

    assert pages.find_page(PAGE) == "'CDI specs' in the documentation"
