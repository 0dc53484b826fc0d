"""Images that require another GPU, given a CDI device by engines that know no AMD runtime, while nothing is tracked."""

from __future__ import annotations

import pytest

from support.cdi_engines import DockerInBox, PodmanInBox, RootlessPodmanInBox
from support.debian_root import debian_root

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

ENGINES = {
    "Docker 28": ("forky", DockerInBox),
    "Docker 26": ("trixie", DockerInBox),
    "Podman 5.8": ("forky", PodmanInBox),
    "Podman 5.4": ("trixie", PodmanInBox),
    "Podman 5.4, rootless": ("trixie", RootlessPodmanInBox),
    "Podman 4.3": ("bookworm", PodmanInBox),
}
FITS = "--env=AMD_REQUIRE_GFX=gfx=gfx90a"
WRONG = "--env=AMD_REQUIRE_GFX=gfx=gfx942"
# crun leaves the bundle of such a container.
IN_A_USER_NAMESPACE = ("--uidmap=0:100000:65536", "--gidmap=0:100000:65536")
SENTENCE = "AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a"
LOG = "/var/log/amd-container-runtime.log"


@pytest.fixture(scope="module")
def engine(make_machine):
    """Return a function that gives an engine of a machine on which the toolkit is installed and nothing configured."""
    machines, engines = {}, {}

    def find(name):
        suite, kind = ENGINES[name]
        if suite not in machines:
            machines[suite] = make_machine(debian_root(suite))
        if name not in engines:
            engines[name] = kind(machines[suite])
        return engines[name]

    return find


@pytest.mark.parametrize("name", ENGINES)
def test_an_image_for_another_gpu_does_not_start(engine, name):
    wrong = engine(name).run("amd.com/gpu=0", "true", options=(WRONG,))
    right = engine(name).run("amd.com/gpu=0", "true", options=(FITS,))
    plain = engine(name).run("amd.com/gpu=0", "true")

    assert wrong.returncode != 0
    assert right.returncode == 0, right.stderr
    assert plain.returncode == 0, plain.stderr
    # crun shows an exit code only, and a user may not write the log.
    if "rootless" not in name:
        assert SENTENCE in engine(name).box("cat", LOG).stdout


@pytest.mark.parametrize("name", [name for name, (_, kind) in ENGINES.items() if kind is PodmanInBox])
def test_crun_in_a_user_namespace_is_no_way_round(engine, name):
    wrong = engine(name).run("amd.com/gpu=0", "true", options=(*IN_A_USER_NAMESPACE, WRONG))
    right = engine(name).run("amd.com/gpu=0", "true", options=(*IN_A_USER_NAMESPACE, FITS))

    assert wrong.returncode != 0
    assert right.returncode == 0, right.stderr
