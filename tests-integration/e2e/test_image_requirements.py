"""The right image on the right host: `pick` chooses among many, and engines refuse the wrong ones."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import Docker
from support.installed import engine_program, our_program, require_programs, require_root
from support.podman import Podman
from support.processor import with_processor

pytestmark = pytest.mark.e2e

# Three hosts that nobody should give the same image: their GPUs, drivers and processors are not alike.
PROCESSORS = {"mi210-4": "x86-64-v4", "mi300x-8": "x86-64-v3", "strix-halo": "x86-64-v4"}
ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("docker", "podman")]
MATRIX = list(product(("6.4", "7.2"), ("gfx90a", "gfx942", "gfx1151"), ("x86-64-v3", "x86-64-v4")))
# An image that would waste what the processor has, and says so.
SLOW = "app:slow"
SLOW_REQUIRES = "cpu>=x86-64-v3,cpu<x86-64-v4"
ANYWAY = "(AMD_DISABLE_REQUIRE=true starts it anyway)"
# The four failures: a user space that does not match the driver, a GPU that the image has no code for, a build for
# older processors, and an illegal instruction.
FAILURES = [
    (
        "mi210-4",
        "app:7.2-gfx90a-x86-64-v4",
        "AMD_REQUIRE_ROCM=rocm=7.2: the amdgpu driver 6.10.5 is tested with ROCm 6.1 to 6.4",
    ),
    ("strix-halo", "app:6.4-gfx90a-x86-64-v4", "AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151"),
    ("mi210-4", SLOW, f"AMD_REQUIRE_CPU={SLOW_REQUIRES}: the processor is x86-64-v4"),
    ("mi300x-8", "app:6.4-gfx942-x86-64-v4", "AMD_REQUIRE_CPU=cpu>=x86-64-v4: the processor is x86-64-v3"),
]
PICKS = [
    ("mi210-4", "app:6.4-gfx90a-x86-64-v4"),
    ("mi300x-8", "app:6.4-gfx942-x86-64-v3"),
    ("strix-halo", "app:7.2-gfx1151-x86-64-v4"),
]
NEEDED = {*(failure[:2] for failure in FAILURES), *PICKS}


REQUIREMENTS = {
    **{f"app:{rocm}-{gfx}-{cpu}": {"rocm": f"rocm={rocm}", "gfx": f"gfx={gfx}", "cpu": f"cpu>={cpu}"}
       for rocm, gfx, cpu in MATRIX},
    SLOW: {"cpu": SLOW_REQUIRES},
}  # fmt: skip


def index_of_all(path):
    """Write an index of all images but one, by their names."""
    entries = [
        {
            "annotations": {
                "org.opencontainers.image.ref.name": image,
                **{f"com.amd.gpu.require.{name}": value for name, value in requirements.items()},
            }
        }
        for image, requirements in REQUIREMENTS.items()
        if image != SLOW
    ]
    path.write_text(json.dumps({"manifests": entries}))
    return path


class Server:
    """A simulated host with its processor, and an engine on it that has the images of the matrix."""

    def __init__(self, profile, directory, image_archive, make_engine):
        directory.mkdir()
        self.host = build_host(directory / "host", profile, bare=True)
        self._level = PROCESSORS[profile]
        self._needed = {image for where, image in NEEDED if where == profile}
        self._directory = directory
        self.engine = make_engine(self.program("amd-container-runtime"), self.host.root, directory)
        wanted = {image: REQUIREMENTS[image] for image in sorted(self._needed)}
        for image, requirements in wanted.items():
            variables = [f"--change=ENV AMD_REQUIRE_{name.upper()}={value}" for name, value in requirements.items()]
            command = '--change=CMD ["test", "-e", "/dev/kfd"]'
            self.engine("import", *variables, command, os.fspath(image_archive), image)

    def program(self, name):
        return with_processor(self._level, our_program(name), self._directory)

    def amd_ctk(self, *words):
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": self.host.root}
        words = (self.program("amd-ctk"), *words)
        return subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture(scope="module", params=ENGINES)
def server(request, tmp_path_factory, image_archive):
    """Return a function that gives a host with an engine, which is started when it is first asked for."""
    require_root()
    engine_program("runc")
    make_engine = {"docker": make_docker, "podman": make_podman}[request.param]
    servers = {}
    directory = tmp_path_factory.mktemp(request.param)

    def find(profile):
        if profile not in servers:
            servers[profile] = Server(profile, directory / profile, image_archive, make_engine)
        return servers[profile]

    yield find
    for made in servers.values():
        if isinstance(made.engine, Docker):
            made.engine.stop()


def make_docker(runtime, host_root, _):
    require_programs("dockerd", "containerd", "docker")
    docker = Docker(runtime, host_root, **{"default-runtime": "amd"})
    docker.start()
    return docker


def make_podman(runtime, host_root, directory):
    return Podman(engine_program("podman"), directory, runtime, host_root)


def run(engine, image, *options, gpus="0", command=()):
    return engine("run", "--rm", f"--env=AMD_VISIBLE_DEVICES={gpus}", *options, image, *command, check=False)


@pytest.mark.parametrize(("profile", "image", "sentence"), FAILURES)
def test_an_engine_shows_why_an_image_is_the_wrong_one(server, profile, image, sentence):
    ended = run(server(profile).engine, image)

    assert ended.returncode in (125, 126)
    assert f"amd-container-runtime: {sentence} {ANYWAY}" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(("profile", "image"), PICKS)
def test_the_image_that_is_picked_is_the_one_that_starts(server, tmp_path, profile, image):
    here, index = server(profile), index_of_all(tmp_path / "index.json")

    picked = here.amd_ctk("image", "pick", index)
    started = run(here.engine, picked.strip().removeprefix(f"{index}:"))

    assert picked == f"{index}:{image}\n"
    assert started.returncode == 0, started.stderr


def test_a_user_starts_the_wrong_image_anyway(server):
    profile, image, _ = FAILURES[1]

    assert run(server(profile).engine, image, "--env=AMD_DISABLE_REQUIRE=true").returncode == 0


def test_an_image_that_needs_no_gpu_starts_everywhere(server):
    profile, image, _ = FAILURES[0]

    assert run(server(profile).engine, image, gpus="none", command=("true",)).returncode == 0


# A kind of devices that no other program has; Podman 4 reads no other directory than those of the machine.
CDI_DEVICE = "example.com/amdtest=0"
CDI_FILE = "/run/cdi/amd-container-toolkit-test.json"
WRONG = "AMD_REQUIRE_GFX=gfx=gfx942"


@pytest.fixture(scope="module")
def plain_podman(tmp_path_factory, image_archive):
    """Return Podman without the AMD runtime, with the CDI spec of four MI210 and an image for other GPUs."""
    require_root()
    directory = tmp_path_factory.mktemp("cdi")
    host = build_host(directory / "host", "mi210-4", bare=True)
    podman = Podman(engine_program("podman"), directory, engine_program("runc"), "/")
    podman(
        "import", f"--change=ENV {WRONG}", '--change=CMD ["test", "-e", "/dev/kfd"]', str(image_archive), "app:wrong"
    )
    words = ("cdi", "generate", "--vendor=example.com", "--class=amdtest", "--output=-")
    environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
    spec = subprocess.run([our_program("amd-ctk"), *words], env=environment, stdout=subprocess.PIPE, check=True).stdout
    Path(CDI_FILE).parent.mkdir(exist_ok=True)
    Path(CDI_FILE).write_bytes(spec)
    yield podman
    Path(CDI_FILE).unlink()


@pytest.mark.podman
def test_a_cdi_device_of_the_wrong_gpu_is_refused_without_runtime_and_tracker(plain_podman):
    ended = plain_podman("run", "--rm", f"--device={CDI_DEVICE}", "app:wrong", check=False)

    assert ended.returncode != 0
    assert f"{WRONG}: GPU 0 is gfx90a {ANYWAY}" in ended.stderr


@pytest.mark.podman
@pytest.mark.parametrize(
    "words",
    [
        (f"--device={CDI_DEVICE}", "--env=AMD_DISABLE_REQUIRE=true", "app:wrong"),
        (f"--device={CDI_DEVICE}", f"--env={WRONG.replace('gfx942', 'gfx90a')}", "app:wrong"),
        ("app:wrong", "true"),
    ],
    ids=["anyway", "another requirement", "no GPU"],
)
def test_a_container_that_may_start_does(plain_podman, words):
    ended = plain_podman("run", "--rm", *words, check=False)

    assert ended.returncode == 0, ended.stderr
