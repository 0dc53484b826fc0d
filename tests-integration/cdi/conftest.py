"""A simulated host's CDI spec, and boxes in which engines find it."""

from __future__ import annotations

import os
import subprocess

import pytest

from amdgpu_discovery.simulate import build_host
from support.installed import our_program


@pytest.fixture(scope="session")
def cdi_host(tmp_path_factory):
    """Return a host with four GPUs, under the unique ids and PCI addresses that the tests name."""
    return build_host(tmp_path_factory.mktemp("mi210") / "host", "mi210-4")


@pytest.fixture(scope="session")
def generate(cdi_host):
    """Return a function that gives the spec `amd-ctk cdi generate` prints with some options."""

    def generate(*options):
        return subprocess.run(
            [our_program("amd-ctk"), "cdi", "generate", "--output=-", *options],
            env={"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": cdi_host.root},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout

    return generate
