"""What `import amdgpu_discovery` offers, and that it loads nothing before a name is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import amdgpu_discovery
from amdgpu_discovery import lazy_exports
from support.described import undescribed


def test_every_name_of_the_front_page_is_there():
    assert [name for name in amdgpu_discovery.__all__ if not callable(getattr(amdgpu_discovery, name))] == []


def test_a_name_stays_the_same_when_the_module_behind_it_was_imported():
    before = amdgpu_discovery.find_device_nodes

    from amdgpu_discovery.driver import device_nodes

    assert amdgpu_discovery.find_device_nodes is before is device_nodes.find_device_nodes


def test_the_front_page_loads_no_module_behind_it():
    code = "import sys, amdgpu_discovery; print(sorted(name for name in sys.modules if name.startswith('amdgpu')))"

    said = subprocess.check_output([sys.executable, "-c", code], text=True)

    assert said == "['amdgpu_discovery']\n"


def test_a_name_that_is_not_offered_is_named():
    with pytest.raises(AttributeError, match=r"^module 'amdgpu_discovery' has no attribute 'find_cpus'$"):
        _ = amdgpu_discovery.find_cpus


@pytest.mark.parametrize("name", ["build_host", "load_profile", "profile_names"])
def test_a_name_that_moved_names_its_new_package(name):
    with pytest.raises(ImportError, match=f"^{name} is in amdgpu_simulator now: from amdgpu_simulator import {name}$"):
        getattr(amdgpu_discovery, name)
    with pytest.raises(ImportError, match=f"^{name} is in amdgpu_simulator now: from amdgpu_simulator import {name}$"):
        exec(f"from amdgpu_discovery.simulate import {name}")


def test_the_version_is_that_of_the_installed_distribution():
    assert lazy_exports("pytest", {})("__version__") == pytest.__version__


def test_help_describes_every_field_and_parameter():
    assert undescribed(amdgpu_discovery) == []
