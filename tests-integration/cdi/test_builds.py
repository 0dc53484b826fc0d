"""Builds of images whose commands use a GPU: `docker build` by both of its builders, buildah and `podman build`."""

from __future__ import annotations

import pytest

from support.debian_root import debian_root
from support.docker import IMAGE
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

GPU_0 = ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
SEES = "RUN list-gpus && test \"$(list-gpus | cut -d ' ' -f 1 | sort | xargs)\" = '{}'\n"
SEES_GPU_0 = SEES.format(" ".join(GPU_0))
SEES_NOTHING = SEES.format("")
ASKS = f"FROM {IMAGE}\nENV AMD_VISIBLE_DEVICES=0\n"
RUNTIME = "--runtime=/usr/bin/amd-container-runtime"
GIVE = "--device=amd.com/gpu=0"


@pytest.fixture(scope="module")
def docker(make_docker, docker_28):
    """Return a function that gives the Docker of a release of Debian; its default runtime is `amd`."""
    engines = {"forky": docker_28}

    def find(suite):
        if suite not in engines:
            engines[suite] = make_docker(debian_root(suite))
        return engines[suite]

    return find


def build(docker, dockerfile, *, buildkit):
    docker.box.write("/root/build/Dockerfile", dockerfile.encode())
    variables = (f"DOCKER_BUILDKIT={buildkit:d}", "BUILDKIT_PROGRESS=plain")
    return docker.box("env", *variables, "docker", "build", "--no-cache", "--network=none", "/root/build", check=False)


@pytest.mark.parametrize("suite", ["bookworm", "trixie", "forky"])
def test_dockers_legacy_builder_uses_the_default_runtime(docker, suite):
    built = build(docker(suite), ASKS + SEES_GPU_0, buildkit=False)

    assert built.returncode == 0, built.stdout + built.stderr


@pytest.mark.parametrize("suite", ["bookworm", "forky"])
def test_buildkit_never_uses_it(docker, suite):
    built = build(docker(suite), ASKS + SEES_NOTHING, buildkit=True)

    assert built.returncode == 0, built.stdout + built.stderr


def test_a_device_of_a_command_needs_the_labs_channel_of_dockerfiles(docker):
    """That is an image of a registry, which is not to be had here; the built-in one of Docker 28 refuses."""
    built = build(docker("forky"), f"FROM {IMAGE}\nRUN {GIVE} list-gpus\n", buildkit=True)

    assert "device feature is only supported in Dockerfile frontend 1.14.0-labs or later" in built.stderr
    assert built.returncode == 1


# The root of a virtual machine may not give what containers get by default.
LIMITS = b"""[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
POLICY = b'{"default": [{"type": "insecureAcceptAnything"}]}'


@pytest.fixture(scope="module")
def machine(docker_28):
    """Return the machine of Docker 28, on which buildah and Podman are too."""
    docker_28.box.write("/etc/containers/containers.conf", LIMITS)
    docker_28.box.write("/etc/containers/policy.json", POLICY)
    return docker_28.box


class Buildah:
    """buildah of a user, with a container that is being built."""

    def __init__(self, machine, user, isolation):
        self._machine = machine
        self._user = user
        self._environment = ("env", "STORAGE_DRIVER=vfs", f"BUILDAH_ISOLATION={isolation}")
        self._container = self("from", "--quiet", "oci-archive:/box/oci.tar").stdout.strip()

    def __call__(self, *words, check=True):
        return self._machine(*self._environment, "buildah", *words, user=self._user, check=check)

    def run(self, *options, check=True):
        return self("run", "--network=none", *options, self._container, "list-gpus", check=check)


@pytest.fixture(scope="module")
def buildah(machine):
    return Buildah(machine, "", "oci")


@pytest.fixture(scope="module")
def rootless(machine):
    return Buildah(machine, "u1", "rootless")


def test_buildah_gives_a_command_what_it_asks_the_amd_runtime_for(buildah):
    ran = buildah.run(RUNTIME, "--env=AMD_VISIBLE_DEVICES=0")

    assert sorted(paths(parse_seen(ran.stdout))) == GPU_0


def test_buildah_builds_with_the_amd_runtime(buildah, machine):
    machine.write("/root/build/Containerfile", f"FROM oci-archive:/box/oci.tar\n{SEES_GPU_0}".encode())

    buildah("build", "--no-cache", "--network=none", RUNTIME, "--env=AMD_VISIBLE_DEVICES=0", "/root/build")


@pytest.mark.parametrize(
    ("runtime", "refusal"),
    [("runc", "device access at 4 field cannot be empty"), ("crun", "write to `devices.allow`: Invalid argument")],
)
def test_buildah_of_root_writes_device_rules_for_cdi_that_runtimes_refuse(buildah, runtime, refusal):
    """It adds a second rule for each node, which has no access."""
    ran = buildah.run(f"--runtime={runtime}", GIVE, check=False)

    assert refusal in ran.stderr
    assert ran.returncode == 1


def test_buildah_of_a_user_gives_cdi_devices_with_the_mode_of_the_host(rootless):
    seen = parse_seen(rootless.run(GIVE).stdout)

    assert sorted(paths(seen)) == GPU_0
    assert {node.access for node in seen} == {"refused-by-mode"}


def test_buildah_without_isolation_shows_every_node_of_the_host(machine):
    seen = parse_seen(Buildah(machine, "", "chroot").run().stdout)

    assert len([node for node in seen if "renderD" in node.path and node.access == "opens"]) == 4


def test_podman_builds_with_the_amd_runtime(machine):
    podman = ("podman", "--cgroup-manager=cgroupfs", "--events-backend=file", "--storage-driver=vfs", RUNTIME)
    machine(*podman, "import", "--quiet", "/box/image.tar", IMAGE)
    machine.write("/root/podman/Containerfile", (ASKS + SEES_GPU_0).encode())

    machine(*podman, "build", "--no-cache", "--network=none", "--isolation=oci", "/root/podman")
