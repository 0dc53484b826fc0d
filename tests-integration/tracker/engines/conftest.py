"""Machines of three Debian releases with four MI210, and the toolkit installed in them from debs."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager

import pytest

from amdgpu_simulator import build_host
from support.cdi_engines import put_image
from support.debian_root import EXPERIMENTAL, debian_root
from support.debs import build_debs
from support.docker import IMAGE
from support.installed import our_program, require_root
from support.oci_archive import pack_oci
from support.tracked_box import TrackedBox, keep_boxes


@pytest.fixture(scope="session")
def make_box(tmp_path_factory, image_archive):
    """Return a function that gives a box over a release of Debian; in a directory that had one, its next boot."""
    require_root()
    host = build_host(tmp_path_factory.mktemp("hardware") / "host", "mi210-4")
    generate = [our_program("amd-ctk"), "--host-root", host.root, "cdi", "generate", "--output=-"]
    spec = subprocess.run(generate, stdout=subprocess.PIPE, check=True).stdout
    debs = build_debs(tmp_path_factory.mktemp("debs"))
    oci_archive = pack_oci(image_archive, tmp_path_factory.mktemp("oci") / "oci.tar", IMAGE)

    @contextmanager
    def make(suite, directory):
        # Podman 6 knows no other cgroups.
        newer = suite == EXPERIMENTAL
        with TrackedBox(debian_root(suite), directory, host, spec, debs, cgroup2=newer) as box:
            put_image(box, image_archive, oci_archive)
            yield box

    return make


@pytest.fixture(scope="session")
def box(tmp_path_factory, make_box):
    """Return a function that gives a running box over a release of Debian in which the tracker is enabled."""
    with keep_boxes(make_box, tmp_path_factory) as find:
        yield find
