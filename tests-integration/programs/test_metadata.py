"""The distributions and packages are one product: one version, one licence, the same engines."""

from __future__ import annotations

import re
from importlib.metadata import requires, version
from pathlib import Path

import pytest

from amd_container_runtime.runc import USUAL_DIRECTORIES
from amd_ctk.configuration.runtime_program import LOW_LEVEL_DIRECTORIES
from amd_ctk.engines.known import ENGINES

CHECKOUT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = (
    *("amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker", "amd-container-runtime", "amd-ctk"),
    *("amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator"),
)

# How many of the others each needs.
NEEDED = {
    "amdgpu-discovery": 0,
    "amdgpu-simulator": 1,
    "amd-device-spec": 1,
    "amd-gpu-tracker": 1,
    "amd-container-runtime": 3,
    "amd-ctk": 6,
    "amd-gpu-images": 2,
    "amd-gpu-sharing": 3,
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_needs_the_others_in_its_own_version(distribution):
    needed = [text.partition("; ")[0] for text in requires(distribution) or () if re.match(r"amd(gpu)?-", text)]
    # An extra names a distribution once more.
    names = {re.match(r"[a-z-]+", text)[0] for text in needed}

    assert all(text.endswith(f"=={version(distribution)}") for text in needed), needed
    assert len(names) == NEEDED[distribution]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_distribution_brings_the_text_of_the_licence(distribution):
    assert (CHECKOUT / "packages" / distribution / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
@pytest.mark.parametrize("script", ["packaging/scripts/amd-ctk.purge", "packaging/files/node.py"])
def test_the_removal_of_a_package_leaves_no_copy_of_an_engines_file(engine, script):
    directory = "/".join(engine.config_path.split("/")[1:3])

    assert re.search(rf"\b{directory}\b", (CHECKOUT / script).read_text())


def test_runc_is_looked_for_where_the_runtime_finds_it():
    assert LOW_LEVEL_DIRECTORIES == USUAL_DIRECTORIES
