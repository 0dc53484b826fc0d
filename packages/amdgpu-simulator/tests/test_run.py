"""amdgpu-simulator run: a GPU server laid over this machine, for one command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import pytest

from amdgpu_discovery.recording.profile_json import format_profile
from amdgpu_simulator import build_host, load_profile

RUN = (sys.executable, "-m", "amdgpu_simulator", "run")
# Whether mounts need no user namespace. In a container of Podman's default profile root needs one, as a user does.
OWNS_MOUNTS = not subprocess.run(("unshare", "--mount", "true"), capture_output=True, check=False).returncode


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "TMPDIR": os.fspath(tmp_path)}


@pytest.fixture(scope="module", autouse=True)
def allowed(tmp_path_factory):
    """Skip where the kernel, or an engine around the tests, allows no namespace."""
    environment = {**os.environ, "TMPDIR": os.fspath(tmp_path_factory.mktemp("tried"))}
    if subprocess.run((*RUN, "one-gpu", "--", "true"), env=environment, capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")


def run(environment, *words):
    done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_finds_the_gpus_of_the_profile_and_its_exit_code_counts(environment):
    words = "ls /dev/dri/renderD*; ls /sys/class/kfd; exit 7"

    code, shown, said = run(environment, *RUN, "mi210-4", "--", "sh", "-c", words)

    assert code == 7
    assert shown.split() == [*(f"/dev/dri/renderD{minor}" for minor in (128, 129, 130, 131)), "kfd"]
    assert said.startswith("Simulating mi210-4 until the command ends, without a driver: opening a GPU fails")


def test_programs_inside_make_terminals_and_find_other_devices(environment):
    script = "import os; os.openpty(); print(len(open('/dev/urandom', 'rb').read(3)))"

    assert run(environment, *RUN, "one-gpu", "--", sys.executable, "-c", script)[1] == "3\n"


# Prints the files that are directly in a directory, as the kernel knows them.
IDENTITIES = """
import os, sys
for directory in sys.argv[1:]:
    for entry in os.scandir(directory):
        state = entry.stat(follow_symlinks=False)
        print(state.st_dev, state.st_ino, entry.name)
"""


OF_MACHINE = ("etc", "run", "var/lib", "dev")


@pytest.mark.parametrize("where", ["/var/tmp", "/dev/shm"])
def test_the_machines_files_are_not_below_the_directory_of_the_simulation(environment, where):
    identities = (sys.executable, "-c", IDENTITIES)
    with tempfile.TemporaryDirectory(dir=where) as temporary:
        here = {**environment, "TMPDIR": temporary}
        base = f"{temporary}/amd-ctk-simulations-{os.geteuid()}/one-gpu/host"

        code, seen, said = run(here, *RUN, "one-gpu", "--", *identities, *(f"{base}/{path}" for path in OF_MACHINE))

    assert code == 0, said
    machine = run(environment, *identities, *(f"/{path}" for path in OF_MACHINE))[1].splitlines()
    assert [line for line in seen.splitlines() if line in machine] == []
    assert any(line.endswith(" passwd") for line in seen.splitlines())


def test_a_simulation_inside_another_leaves_it_whole(environment):
    nested = f"{' '.join(RUN)} one-gpu -- true; cat /etc/passwd; ls -A $TMPDIR/amd-ctk-simulations-*"

    shown = run(environment, *RUN, "mi210-4", "--", "sh", "-c", nested)[1]

    assert "root:" in shown
    assert shown.endswith("\nmi210-4\n")


def test_a_directory_with_a_mount_is_left_alone(environment, tmp_path):
    base = tmp_path / f"amd-ctk-simulations-{os.geteuid()}"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    base.mkdir(mode=0o700)
    (base / "dead" / "host" / "etc").mkdir(parents=True)
    unshare = ["unshare", "--mount", *([] if OWNS_MOUNTS else ["--map-root-user"])]
    mounted = f"mount --bind {kept} {base}/dead/host/etc && {' '.join(RUN)} one-gpu -- true"

    code, _, said = run(environment, *unshare, "sh", "-c", mounted)

    assert code == 0, said
    assert (kept / "file").read_text() == "kept"


def test_many_simulations_begin_and_end_at_once(environment):
    started = [
        subprocess.Popen((*RUN, "one-gpu", "--", "true"), env=environment, stderr=subprocess.PIPE, encoding="utf-8")
        for _ in range(8)
    ]

    said = [each.communicate()[1] for each in started]

    assert [each.returncode for each in started] == [0] * 8, said


@pytest.mark.parametrize("name", ["n" * 300, "two\nlines", "../above", ".hidden", "a b"])
def test_a_name_is_one_of_a_job(environment, name):
    code, _, said = run(environment, *RUN, "--name", name, "one-gpu", "--", "true")

    assert code == 2
    assert said == (
        f"{name[:64]!r} cannot name a simulation "
        "(use --name with at most 64 letters, digits, dots, dashes and underscores)\n"
    )


@pytest.fixture
def profile_file(tmp_path):
    """Return a function that writes a profile with changes of its only GPU, or of its driver, and returns its path."""

    def write(*, driver=None, model=None, **gpu):
        profile = json.loads(format_profile(load_profile("one-gpu")))
        profile["gpus"][0] |= gpu
        profile["driver"] |= driver or {}
        for name in profile["models"]:
            profile["models"][name] |= model or {}
        path = tmp_path / "profile.json"
        path.write_text(json.dumps(profile))
        return os.fspath(path)

    return write


@pytest.mark.parametrize(
    "name", ["drm/renderD128/uevent", "uevent", "hwmon/uevent", "../x", "ras//x", "/x", "a/../../x", "drm/x"]
)
@pytest.mark.parametrize("kind", ["health", "attributes"])
def test_a_profile_names_no_attribute_outside_its_function(environment, profile_file, kind, name):
    entry = {name: "DEVNAME=../../../../../../../../../../tmp/victim"}
    path = profile_file(health=entry) if kind == "health" else profile_file(model={"attributes": entry})

    code, _, said = run(environment, *RUN, path, "--", "true")

    assert code == 6
    assert said == (
        f"{name!r} is not an attribute that a profile can have "
        "(name a file such as ras/umc_err_count, and none in drm or named uevent)\n"
    )


def test_a_profile_makes_no_file_outside_the_host(environment, profile_file, tmp_path):
    path = profile_file(upstream=["../../../../../../outside"])

    said = run(environment, *RUN, path, "--", "true")[2]

    assert "is not a valid path on a host" in said
    assert list(tmp_path.rglob("outside")) == []


def test_a_device_node_comes_from_the_profile_and_not_from_a_file_of_its_host(tmp_path):
    host = build_host(tmp_path / "host", "one-gpu")
    victim = tmp_path / "victim"
    victim.write_text("kept")
    uevent = os.path.realpath(host.path("/sys/dev/char/226:128/uevent"))
    with open(uevent, "w", encoding="ascii") as file:
        file.write("DEVNAME=../../victim\n")
    script = (
        "import sys; from amdgpu_discovery.host import Host; from amdgpu_simulator import load_profile\n"
        "from amdgpu_simulator.runs.laid import lay_over\n"
        "from amdgpu_simulator.runs.namespace import enter_namespace\n"
        "from amdgpu_simulator.runs.laid import numbers_of_nodes\n"
        "enter_namespace(); lay_over(Host(sys.argv[1]), numbers_of_nodes(load_profile('one-gpu')))"
    )

    subprocess.run((sys.executable, "-c", script, host.root), check=True)

    assert victim.read_text() == "kept"


as_root = pytest.mark.skipif(not OWNS_MOUNTS, reason="only root with CAP_SYS_ADMIN makes device nodes")


KINDS = ("stat", "-c", "%F", "/dev/kfd", "/dev/dri/renderD128")


@as_root
def test_a_device_of_the_machine_is_not_reached_by_its_number(environment):
    has_card = "mount -t tmpfs char /sys/dev/char && ln -s ../../gpu /sys/dev/char/226:128"
    inside = " ".join((*RUN, "one-gpu", "--", *KINDS))

    code, shown, said = run(environment, "unshare", "--mount", "sh", "-c", f"{has_card} && {inside}")

    assert code == 0, said
    assert shown == "character special file\nregular empty file\n"
    assert said == (
        "Simulating one-gpu until the command ends, without a driver: opening a GPU fails; plain files, because this "
        "machine has devices with the same numbers: dri/renderD128\n"
    )


@as_root
def test_kfd_gets_no_major_number_of_another_driver(environment, profile_file):
    misc = profile_file(driver={"kfd_major": 10})

    code, shown, said = run(environment, *RUN, misc, "--", *KINDS)

    assert code == 0, said
    assert shown == "regular empty file\ncharacter special file\n"
    assert said.endswith("devices with the same numbers: kfd\n")


def test_a_host_without_a_driver_can_be_run(environment):
    assert run(environment, *RUN, "no-driver", "--", "true")[0] == 0
